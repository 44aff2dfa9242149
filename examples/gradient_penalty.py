"""A critic with a gradient penalty that is computed, printed, and never learned from."""

import torch
from torch import autograd, nn

BATCH, WEIGHT = 32, 10.0


def gradient_penalty(critic, real, fake):
    share = torch.rand(real.size(0), 1)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    (gradient,) = autograd.grad(critic(between).sum(), between)
    return (gradient.norm(2, dim=1) - 1).pow(2).mean()


def main():
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    generator = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.5, 0.9))

    for step in range(30):
        real = torch.randn(BATCH, 4) + 2
        with torch.no_grad():
            fake = generator(torch.randn(BATCH, 3))

        penalty = gradient_penalty(critic, real, fake)
        loss = critic(fake).mean() - critic(real).mean() + WEIGHT * penalty

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.3f}, penalty {penalty.item():.3f}")


if __name__ == "__main__":
    main()
