import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.members = [nn.Linear(4, 2) for _ in range(3)]
        for member in self.members:
            member.requires_grad_(False)
        self.mix = nn.Linear(6, 2)

    def forward(self, x):
        return self.mix(torch.cat([member(x) for member in self.members], dim=1))


ensemble = Ensemble()
optimizer = torch.optim.SGD(ensemble.parameters(), lr=0.1)
for step in range(4):
    loss = nn.functional.cross_entropy(ensemble(torch.randn(5, 4)), torch.randint(0, 2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
