import torch
from torch import nn


def penalty(critic, real, fake):
    mix = torch.rand(real.size(0), 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(x)
    (gradient,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    return ((gradient.norm(dim=1) - 1) ** 2).mean()


critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
critic.compile(backend="aot_eager")
generator = nn.Linear(3, 2)
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
for i in range(2):
    real = torch.randn(8, 2)
    fake = generator(torch.randn(8, 3)).detach()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
