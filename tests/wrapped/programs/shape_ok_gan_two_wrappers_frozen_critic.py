import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



def toggle(net, on):
    for p in net.parameters():
        p.requires_grad_(on)


dist.init_process_group("gloo")
torch.manual_seed(0)
g = DDP(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4)))
d = DDP(nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
opt_g, opt_d = (torch.optim.Adam(net.parameters(), lr=1e-3) for net in (g, d))
torch.manual_seed(dist.get_rank())
for step in range(3):
    noise, real = torch.randn(5, 3), torch.randn(5, 4)
    fake = g(noise)
    opt_d.zero_grad()
    (F.relu(1 - d(real)).mean() + F.relu(1 + d(fake.detach())).mean()).backward()
    opt_d.step()
    toggle(d.module, False)
    opt_g.zero_grad()
    (-d.module(fake).mean()).backward()
    opt_g.step()
    toggle(d.module, True)
