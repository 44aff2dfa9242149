import torch
from torch import nn


class Solver:
    def __init__(self):
        self.encoder, self.head = nn.Linear(5, 6), nn.Linear(6, 2)
        self.optimizers = {
            "encoder": torch.optim.Adam(self.encoder.parameters(), lr=1e-4),
            "head": torch.optim.Adam(self.head.parameters(), lr=1e-3),
        }

    def reset_grad(self):
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()

    def update(self, loss):
        loss.backward()
        for optimizer in self.optimizers.values():
            optimizer.step()
        self.reset_grad()

    def train(self, steps=4):
        for _ in range(steps):
            x, y = torch.randn(8, 5), torch.randint(0, 2, (8,))
            self.update(nn.functional.cross_entropy(self.head(torch.relu(self.encoder(x))), y))


Solver().train()
