import torch
import torch.nn.functional as F
from torch import nn


class Pairs:
    def __init__(self, lr):
        self.left, self.right = nn.Linear(6, 4), nn.Linear(5, 4)
        self.temperature = torch.tensor(0.07, requires_grad=True)
        groups = [{"params": [*self.left.parameters(), self.temperature]}, {"params": self.right.parameters(), "lr": lr / 10}]
        self.optimizer = torch.optim.AdamW(groups, lr=lr)

    def update(self, a, b):
        logits = F.normalize(self.left(a), dim=1) @ F.normalize(self.right(b), dim=1).t()
        loss = F.cross_entropy(logits / self.temperature, torch.arange(len(a)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


pairs = Pairs(1e-3)
for step in range(4):
    pairs.update(torch.randn(8, 6), torch.randn(8, 5))
