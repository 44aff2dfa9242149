"""A small GAN on points of a circle: both networks learn from the same generated batch."""

import math

import torch
from torch import nn

BATCH, NOISE = 64, 8


def real_points(count):
    angle = torch.rand(count) * 2 * math.pi
    return torch.stack((angle.cos(), angle.sin()), dim=1)


def network(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.LeakyReLU(0.2), nn.Linear(32, outputs))


def main():
    torch.manual_seed(0)
    generator, discriminator = network(NOISE, 2), network(2, 1)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
    d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(BATCH, 1), torch.zeros(BATCH, 1)

    for step in range(50):
        fake = generator(torch.randn(BATCH, NOISE))

        d_optimizer.zero_grad()
        d_loss = criterion(discriminator(real_points(BATCH)), ones)
        d_loss = d_loss + criterion(discriminator(fake), zeros)
        d_loss.backward()
        d_optimizer.step()

        g_optimizer.zero_grad()
        g_loss = criterion(discriminator(fake), ones)
        g_loss.backward()
        g_optimizer.step()

        if step % 10 == 0:
            print(f"step {step}: d {d_loss.item():.3f}, g {g_loss.item():.3f}")


if __name__ == "__main__":
    main()
