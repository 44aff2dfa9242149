import torch
from torch import nn


class Potential(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, positions):
        positions = positions.requires_grad_(True)
        energy = self.net(positions).sum(dim=(1, 2))
        forces = -torch.autograd.grad(energy.sum(), positions, create_graph=self.training)[0]
        return energy, forces


model = Potential()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
data = [(torch.randn(4, 5, 3), torch.randn(4), torch.randn(4, 5, 3)) for _ in range(4)]
for epoch in range(2):
    model.train()
    for positions, energy, forces in data:
        e, f = model(positions.clone())
        loss = (e - energy).pow(2).mean() + (f - forces).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    error = 0.0
    for positions, energy, forces in data:
        e, f = model(positions.clone())
        error += (f - forces).abs().mean().item() + (e - energy).abs().mean().item()
    print(epoch, error)
