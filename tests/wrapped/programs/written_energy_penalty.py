import torch
from torch import nn


def sample(energy, x, steps=3):
    for _ in range(steps):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(energy(x).sum(), x)
        x = x - 0.1 * slope + 0.01 * torch.randn_like(x)
    return x.detach()


def penalty(energy, x):
    x = x.clone().requires_grad_()
    slope = torch.autograd.grad(energy(x).sum(), x, create_graph=True)[0]  # TAPE611
    return slope.square().sum(1).mean()


def train(energy, data):
    optimizer = torch.optim.Adam(energy.parameters(), lr=1e-3)
    for real in data:
        fake = sample(energy, torch.randn_like(real))
        loss = energy(real).mean() - energy(fake).mean()
        loss = loss + 0.1 * penalty(energy, real)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 1))
train(torch.compile(net, backend="aot_eager"), [torch.randn(8, 2) for _ in range(2)])
