import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix)
    grad = torch.autograd.grad(score, mix, torch.ones_like(score), create_graph=True, retain_graph=True)[0]
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
critic = torch.compile(critic, backend="aot_eager")
opt = torch.optim.Adam(critic.parameters(), 1e-4)
for step in range(2):
    real, fake = torch.randn(6, 4), torch.randn(6, 4)
    loss = critic(fake).mean() - critic(real).mean() + 10 * gradient_penalty(critic, real, fake)
    opt.zero_grad()
    loss.backward()  # TAPE604
    opt.step()
