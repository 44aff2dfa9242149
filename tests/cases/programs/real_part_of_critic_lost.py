import torch
from torch import nn


class GAN:
    def __init__(self):
        self.G, self.D = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=2e-4)
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=2e-4)
        self.criterion = nn.BCEWithLogitsLoss()

    def train_d(self, real):
        self.D.zero_grad()
        loss_real = self.criterion(self.D(real), torch.ones(len(real), 1))
        loss_real.backward()
        fake = self.G(torch.randn(len(real), 3)).detach()
        self.D.zero_grad()
        loss_fake = self.criterion(self.D(fake), torch.zeros(len(real), 1))
        loss_fake.backward()
        self.opt_d.step()

    def train_g(self, count):
        self.G.zero_grad()
        loss = self.criterion(self.D(self.G(torch.randn(count, 3))), torch.ones(count, 1))
        loss.backward()
        self.opt_g.step()


gan = GAN()
for batch in range(4):
    gan.train_d(torch.randn(5, 2))
    gan.train_g(5)
