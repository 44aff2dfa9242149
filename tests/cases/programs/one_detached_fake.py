import torch
from torch import nn
import torch.nn.functional as F


class ToyGAN:
    def __init__(self, latent=5, size=3):
        self.latent = latent
        self.generator = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, size))
        self.critic = nn.Sequential(nn.Linear(size, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=1e-4, betas=(0.5, 0.9))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=1e-4, betas=(0.5, 0.9))

    def train_batch(self, real):
        noise = torch.randn(real.size(0), self.latent)
        fake = self.generator(noise).detach()

        c_loss = F.softplus(self.critic(fake)).mean() + F.softplus(-self.critic(real)).mean()
        self.opt_c.zero_grad()
        c_loss.backward()
        self.opt_c.step()

        g_loss = F.softplus(-self.critic(fake)).mean()
        self.opt_g.zero_grad()
        g_loss.backward()
        self.opt_g.step()
        return c_loss.item(), g_loss.item()


gan = ToyGAN()
for batch in range(5):
    print(gan.train_batch(torch.randn(8, 3)))
