"""A translator of reversed sequences: encoder, attention, a decoder fed with its own words now and then, packed input."""

import random

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

random.seed(13)
torch.manual_seed(13)
WORDS, START, END, PAD = 9, 9, 10, 11


def pairs(count):
    for _ in range(count):
        length = random.randint(2, 5)
        source = torch.tensor([random.randrange(WORDS) for _ in range(length)])
        yield source, torch.cat([source.flip(0), torch.tensor([END])])


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(WORDS + 3, hidden, padding_idx=PAD)
        self.gru = nn.GRU(hidden, hidden, bidirectional=True, batch_first=True)
        self.join = nn.Linear(2 * hidden, hidden)

    def forward(self, sources):
        lengths = torch.tensor([len(source) for source in sources])
        padded = pad_sequence(sources, batch_first=True, padding_value=PAD)
        packed = pack_padded_sequence(self.embedding(padded), lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.gru(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        joined = torch.tanh(self.join(torch.cat([state[0], state[1]], dim=1)))
        mask = torch.arange(outputs.size(1))[None] < lengths[:, None]
        return self.join(outputs), joined, mask


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embedding = nn.Embedding(WORDS + 3, hidden)
        self.dropout = nn.Dropout(0.1)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(2 * hidden, WORDS + 3)

    def forward(self, word, state, memory, mask):
        scores = torch.einsum("bh,bth->bt", self.query(state), memory)
        weights = scores.masked_fill(~mask, -1e9).softmax(dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        state = self.cell(torch.cat([self.dropout(self.embedding(word)), context], dim=1), state)
        return self.out(torch.cat([state, context], dim=1)), state


encoder, decoder = Encoder(16), Decoder(16)
optimizers = [torch.optim.Adam(part.parameters(), lr=1e-2) for part in (encoder, decoder)]
criterion = nn.CrossEntropyLoss(ignore_index=PAD)

for step in range(6):
    batch = list(pairs(5))
    memory, state, mask = encoder([source for source, _ in batch])
    targets = pad_sequence([target for _, target in batch], batch_first=True, padding_value=PAD)
    word = torch.full((5,), START)
    loss = 0
    for t in range(targets.size(1)):
        logits, state = decoder(word, state, memory, mask)
        loss += criterion(logits, targets[:, t])
        forced = random.random() < 0.5
        word = targets[:, t] if forced else logits.detach().argmax(1)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print(step, loss.item() / targets.size(1))
