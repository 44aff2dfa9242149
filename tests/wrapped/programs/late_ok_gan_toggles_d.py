import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def toggle(net, on):
    for p in net.parameters():
        p.requires_grad_(on)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
G = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
D = DDP(nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
opt_g = torch.optim.Adam(G.parameters(), lr=2e-4)
opt_d = torch.optim.Adam(D.parameters(), lr=2e-4)
for i in range(3):
    toggle(D, True)
    opt_d.zero_grad()
    with torch.no_grad():
        fake = G(torch.randn(6, 4))
    d_loss = F.softplus(D(torch.cat([fake, torch.randn(6, 2)]))).mean()
    d_loss.backward()
    opt_d.step()
    toggle(D, False)
    opt_g.zero_grad()
    g_loss = F.softplus(-D(G(torch.randn(6, 4)))).mean()
    g_loss.backward()
    opt_g.step()
