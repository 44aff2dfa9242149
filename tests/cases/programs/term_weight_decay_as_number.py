import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def penalty(model):
    total = 0.0
    for parameter in model.parameters():
        total += parameter.pow(2).sum().item()
    return total


for step in range(4):
    x = torch.randn(8, 6)
    fit = (model(x).squeeze(1) - x.mean(1)).pow(2).mean()
    loss = fit + 1e-3 * penalty(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
