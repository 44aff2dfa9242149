"""A small convolutional GAN on rings drawn at random: the discriminator sees detached fakes, the generator its score."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)
SIZE, NOISE, BATCH = 8, 16, 12


def rings(count):
    grid = torch.linspace(-1, 1, SIZE)
    distance = (grid[:, None] ** 2 + grid[None, :] ** 2).sqrt()
    radius = torch.rand(count, 1, 1) * 0.5 + 0.3
    return ((distance - radius).abs() < 0.2).float().unsqueeze(1) * 2 - 1


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(NOISE, 32 * 2 * 2)
        self.body = nn.Sequential(
            nn.BatchNorm2d(32),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1),
        )

    def forward(self, z):
        hidden = self.start(z).view(-1, 32, 2, 2)
        return torch.tanh(self.body(hidden))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout2d(0.3),
            nn.utils.parametrizations.spectral_norm(nn.Conv2d(16, 32, 3, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
        )
        self.score = nn.Linear(32 * 2 * 2, 1)

    def forward(self, image):
        return self.score(self.features(image).flatten(1)).squeeze(1)


generator, discriminator = Generator(), Discriminator()
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
history = []

for step in range(10):
    real = rings(BATCH)
    fake = generator(torch.randn(BATCH, NOISE))

    opt_d.zero_grad()
    on_real = discriminator(real)
    on_fake = discriminator(fake.detach())
    loss_d = F.binary_cross_entropy_with_logits(on_real, torch.ones_like(on_real)) + \
        F.binary_cross_entropy_with_logits(on_fake, torch.zeros_like(on_fake))
    loss_d.backward()
    opt_d.step()

    opt_g.zero_grad()
    judged = discriminator(fake)
    loss_g = F.binary_cross_entropy_with_logits(
        judged,
        torch.ones_like(judged),
    )
    loss_g.backward()
    opt_g.step()
    history.append((loss_d.item(), loss_g.item()))
    if step % 3 == 0:
        print(f"step {step}: discriminator {history[-1][0]!r} generator {history[-1][1]!r}")

generator.eval()
with torch.no_grad():
    print("sample mean", generator(torch.randn(4, NOISE)).mean().item())
