import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
G = DDP(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 5)))
D = DDP(nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
g_opt = torch.optim.Adam(G.parameters())
d_opt = torch.optim.Adam(D.parameters())
torch.manual_seed(dist.get_rank())
for _ in range(3):
    real, noise = torch.randn(4, 5), torch.randn(4, 3)
    d_opt.zero_grad()
    F.softplus(-D(real)).mean().backward()
    fake = G(noise)
    F.softplus(D(fake.detach())).mean().backward()
    d_opt.step()
    D.requires_grad_(False)
    g_opt.zero_grad()
    F.softplus(-D(fake)).mean().backward()
    g_opt.step()
    D.requires_grad_(True)
