import torch
from torch import nn


class LearnedBasis(nn.Module):
    def __init__(self, count=6):
        super().__init__()
        self.count = count
        self.cutoff = nn.Parameter(torch.tensor(5.0))
        self.width = nn.Parameter(torch.tensor(0.5))

    def forward(self, distances):
        centers = torch.linspace(0.0, 1.0, self.count) * self.cutoff
        return torch.exp(-((distances.unsqueeze(-1) - centers) * self.width) ** 2)


basis, readout = LearnedBasis(), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*basis.parameters(), *readout.parameters()], lr=1e-2)
for epoch in range(4):
    distances = torch.rand(10) * 5
    energy = readout(basis(distances)).squeeze(-1)
    loss = (energy - distances.sin()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
