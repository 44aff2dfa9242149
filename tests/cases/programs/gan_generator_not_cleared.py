import torch
from torch import nn

generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
discriminator = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
g_optim = torch.optim.Adam(generator.parameters(), lr=2e-4)
d_optim = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(6, 1), torch.zeros(6, 1)

for i in range(4):
    real = torch.randn(6, 2)
    fake = generator(torch.randn(6, 3))

    d_optim.zero_grad()
    d_loss = bce(discriminator(real), ones) + bce(discriminator(fake.detach()), zeros)
    d_loss.backward()
    d_optim.step()

    g_loss = bce(discriminator(fake), ones)
    g_loss.backward()
    g_optim.step()
