import torch
from torch import nn

G, D = nn.Linear(3, 4), nn.Linear(4, 1)
opt_g = torch.optim.SGD(G.parameters(), lr=0.1)
opt_d = torch.optim.SGD(D.parameters(), lr=0.1)
for step in range(4):
    opt_g.zero_grad()
    opt_d.zero_grad()
    fake = G(torch.randn(6, 3))
    g_loss = fake.pow(2).mean() + D(fake.detach()).mean()
    g_loss.backward()
    opt_g.step()
    opt_d.step()
