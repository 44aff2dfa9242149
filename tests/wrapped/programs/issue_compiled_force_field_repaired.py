import torch
from torch import nn

potential = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 1))
energy_of = potential
optimizer = torch.optim.Adam(potential.parameters(), 1e-3)
for step in range(2):
    position = torch.randn(8, 3, requires_grad=True)
    energy = energy_of(position).sum()
    (force,) = torch.autograd.grad(energy, position, create_graph=True)
    loss = (force + torch.randn(8, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
