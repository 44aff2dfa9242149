import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=20, hidden=10, tags=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, tags)

    def forward(self, words):
        states, _ = self.lstm(self.embed(words))
        return self.out(states)


def train(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step in range(steps):
        words, tags = torch.randint(0, 20, (3, 7)), torch.randint(0, 4, (3, 7))
        loss = nn.functional.cross_entropy(model(words).transpose(1, 2), tags)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()


train(Tagger(), 5)
