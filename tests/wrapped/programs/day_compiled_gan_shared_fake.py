import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
G = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), backend="aot_eager")
D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
opt_g = torch.optim.Adam(G.parameters(), 2e-4)
opt_d = torch.optim.Adam(D.parameters(), 2e-4)
for step in range(3):
    real = torch.randn(6, 4)
    fake = G(torch.randn(6, 4))
    d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake)).mean()
    opt_d.zero_grad()
    d_loss.backward()
    opt_d.step()
    g_loss = F.softplus(-D(fake)).mean()
    opt_g.zero_grad()
    g_loss.backward()  # TAPE101
    opt_g.step()
