import torch
from torch import nn

G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
D = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
criterion = nn.BCEWithLogitsLoss()
real_label, fake_label = torch.ones(6, 1), torch.zeros(6, 1)
for step in range(4):
    D.zero_grad()
    err_real = criterion(D(torch.randn(6, 2)), real_label)
    err_real.backward()
    fake = G(torch.randn(6, 3))
    err_fake = criterion(D(fake.detach()), fake_label)
    err_fake.backward()
    opt_d.step()
    G.zero_grad()
    err_g = criterion(D(fake), real_label)
    err_g.backward()
    opt_g.step()
