import math

import torch
from torch import nn

VOCAB, WINDOW = 30, 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.rnn = nn.LSTM(16, 24)
        self.out = nn.Linear(24, VOCAB)

    def forward(self, tokens, state=None):
        y, state = self.rnn(self.embed(tokens), state)
        return self.out(y), state


def windows(text):
    for start in range(0, len(text) - 1 - WINDOW, WINDOW):
        yield text[start : start + WINDOW], text[start + 1 : start + 1 + WINDOW]


def repackage(state):
    return tuple(part.detach() for part in state)


def perplexity(model, text):
    model.eval()
    state, total, count = None, 0.0, 0
    for source, target in windows(text):
        logits, state = model(source, state)
        state = repackage(state)
        total += nn.functional.cross_entropy(logits.view(-1, VOCAB), target.view(-1)).item() * len(source)
        count += len(source)
    return math.exp(total / count)


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
train_text, valid_text = torch.randint(0, VOCAB, (40, 4)), torch.randint(0, VOCAB, (31, 4))
for epoch in range(2):
    model.train()
    state = None
    for source, target in windows(train_text):
        optimizer.zero_grad()
        logits, state = model(source, state)
        loss = nn.functional.cross_entropy(logits.view(-1, VOCAB), target.view(-1))
        loss.backward()
        optimizer.step()
        state = repackage(state)
    print(epoch, round(perplexity(model, valid_text), 2))
