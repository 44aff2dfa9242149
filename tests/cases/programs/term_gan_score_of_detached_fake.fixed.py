import torch
from torch import nn

G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
D = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)

for step in range(4):
    real, fake = torch.randn(8, 6), G(torch.randn(8, 4))
    score = D(fake).mean()
    g_loss = (fake - real).abs().mean() + 0.01 * (1 - score)
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()

    d_loss = D(fake.detach()).mean() - D(real).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
