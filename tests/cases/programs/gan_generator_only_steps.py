import torch
from torch import nn

G, C = nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.RMSprop(G.parameters(), lr=5e-5)
opt_c = torch.optim.RMSprop(C.parameters(), lr=5e-5)
for i in range(6):
    z = torch.randn(8, 4)
    if i % 2 == 0:
        opt_c.zero_grad()
        loss_c = C(G(z).detach()).mean() - C(torch.randn(8, 3)).mean()
        loss_c.backward()
        opt_c.step()
        for p in C.parameters():
            p.data.clamp_(-0.01, 0.01)
    else:
        opt_g.zero_grad()
        loss_g = -C(G(z)).mean()
        loss_g.backward()
        opt_g.step()
