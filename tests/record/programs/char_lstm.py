"""A character language model: LSTM with state carried over truncated windows, tied weights, clipping, sampling."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(5)
text = "the quick brown fox jumps over the lazy dog. " * 14
letters = sorted(set(text))
index = {letter: i for i, letter in enumerate(letters)}
data = torch.tensor([index[letter] for letter in text])


def batchify(data, rows):
    columns = data.size(0) // rows
    return data[: rows * columns].view(rows, columns).t().contiguous()


def repackage(state):
    if isinstance(state, torch.Tensor):
        return state.detach()
    return tuple(repackage(part) for part in state)


class Model(nn.Module):
    def __init__(self, tokens, width=24, layers=2, dropout=0.25):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.embed = nn.Embedding(tokens, width)
        self.rnn = nn.LSTM(width, width, layers, dropout=dropout)
        self.decode = nn.Linear(width, tokens)
        self.decode.weight = self.embed.weight
        self.layers, self.width = layers, width

    def forward(self, tokens, state):
        out, state = self.rnn(self.drop(self.embed(tokens)), state)
        return self.decode(self.drop(out)), state

    def first_state(self, rows):
        weight = next(self.parameters())
        return (weight.new_zeros(self.layers, rows, self.width), weight.new_zeros(self.layers, rows, self.width))


model = Model(len(letters))
optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
batches = batchify(data, 6)
window = 15

for epoch in range(2):
    model.train()
    state = model.first_state(6)
    total = 0.0
    for start in range(0, batches.size(0) - 1 - window, window):
        tokens = batches[start : start + window]
        targets = batches[start + 1 : start + 1 + window].reshape(-1)
        state = repackage(state)
        model.zero_grad()
        logits, state = model(tokens, state)
        loss = F.cross_entropy(logits.view(-1, len(letters)), targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total += loss.item()
    scheduler.step(total)
    print("epoch", epoch, "loss", repr(total), "norm", norm.item())

model.eval()
with torch.no_grad():
    state, token, written = model.first_state(1), torch.tensor([[0]]), []
    for _ in range(20):
        logits, state = model(token, state)
        token = torch.multinomial(logits[-1].softmax(-1), 1)
        written.append(letters[token.item()])
print("".join(written))
