import torch
from torch import nn


def slope_of(critic, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(critic(x).sum(), x, create_graph=True)[0]


def critic_step(critic, optimizer, real, fake):
    optimizer.zero_grad()
    critic(fake).mean().backward()
    (-critic(real).mean()).backward()
    plain = getattr(critic, "_orig_mod", critic)
    (10 * (slope_of(plain, real).norm(dim=1) - 1).pow(2).mean()).backward()
    optimizer.step()


torch.manual_seed(0)
critic = torch.compile(nn.Sequential(nn.Linear(3, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1)), backend="aot_eager")
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(3):
    critic_step(critic, optimizer, torch.randn(5, 3), torch.randn(5, 3))
