import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2))
        self.score = nn.Linear(16, 1)

    def features(self, x):
        return self.trunk(x)

    def forward(self, x):
        return self.score(self.features(x))


dist.init_process_group("gloo")
torch.manual_seed(0)
g, d = DDP(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))), DDP(Critic())
opt_g = torch.optim.Adam(g.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(d.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    real, noise = torch.randn(6, 8), torch.randn(6, 4)
    fake = g.module(noise)
    loss_d = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    with torch.no_grad():
        wanted = d.module.features(real).mean(0)
    loss_g = (d.module.features(fake).mean(0) - wanted).square().sum()
    opt_g.zero_grad()
    loss_g.backward()  # TAPE601
    opt_g.step()
