import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def toggle(model, on):
    for parameter in model.parameters():
        parameter.requires_grad_(on)


dist.init_process_group("gloo")
torch.manual_seed(0)
g = DDP(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)))
d = DDP(nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
opt_g = torch.optim.Adam(g.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(d.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for _ in range(3):
    real = torch.randn(6, 2)
    fake = g(torch.randn(6, 3))
    loss_d = nn.functional.softplus(-d(real)).mean() + nn.functional.softplus(d(fake.detach())).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    toggle(d, False)
    loss_g = nn.functional.softplus(-d(fake)).mean()
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
    toggle(d, True)
