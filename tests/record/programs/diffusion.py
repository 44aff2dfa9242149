"""Denoising diffusion of a spiral: time embedding, residual blocks, an exponential average of the weights, sampling."""

import copy
import math

import torch
from torch import nn

torch.manual_seed(4)
STEPS = 20
betas = torch.linspace(1e-4, 0.2, STEPS)
alphas = 1.0 - betas
bars = torch.cumprod(alphas, dim=0)


def embedding(t, width=16):
    half = width // 2
    speeds = torch.exp(-math.log(1000.0) * torch.arange(half) / half)
    angles = t[:, None].float() * speeds[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Dropout(0.1), nn.Linear(2 * width, width))
        self.shift = nn.Linear(16, width)

    def forward(self, x, when):
        return x + self.inner(self.norm(x) + self.shift(when))


class Denoiser(nn.Module):
    def __init__(self, width=24, depth=3):
        super().__init__()
        self.into, self.out = nn.Linear(2, width), nn.Linear(width, 2)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))

    def forward(self, x, t):
        when = embedding(t)
        hidden = self.into(x)
        for block in self.blocks:
            hidden = block(hidden, when)
        return self.out(hidden)


class Average:
    def __init__(self, model, decay=0.9):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval()
        for p in self.shadow.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.shadow.parameters(), model.parameters()):
            mine.lerp_(theirs, 1 - self.decay)


def spiral(count):
    turn = torch.rand(count) * 3 * math.pi
    return torch.stack([turn * turn.cos(), turn * turn.sin()], dim=1) / 10 + 0.02 * torch.randn(count, 2)


model = Denoiser()
average = Average(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
running = None
for step in range(12):
    x0 = spiral(32)
    t = torch.randint(0, STEPS, (32,))
    noise = torch.randn_like(x0)
    scale = bars[t].unsqueeze(1)
    noisy = scale.sqrt() * x0 + (1 - scale).sqrt() * noise
    loss = torch.nn.functional.mse_loss(model(noisy, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update(model)
    running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()

print("loss", running)


@torch.inference_mode()
def sample(net, count):
    x = torch.randn(count, 2)
    for t in reversed(range(STEPS)):
        predicted = net(x, torch.full((count,), t))
        x = (x - betas[t] / (1 - bars[t]).sqrt() * predicted) / alphas[t].sqrt()
        if t:
            x += betas[t].sqrt() * torch.randn_like(x)
    return x


print("samples", sample(average.shadow, 8).std(dim=0).tolist())
