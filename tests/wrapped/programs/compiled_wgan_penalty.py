import torch
from torch import nn

critic = torch.compile(nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), backend="aot_eager")
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)


def penalty(real, fake):
    weight = torch.rand(real.size(0), 1)
    mixed = (weight * real + (1 - weight) * fake).requires_grad_(True)
    score = critic(mixed)
    gradient = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True)[0]
    return ((gradient.norm(2, dim=1) - 1) ** 2).mean()


for step in range(2):
    real, fake = torch.randn(8, 2), torch.randn(8, 2)
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    optimizer.zero_grad()
    loss.backward()  # TAPE604
    optimizer.step()
