import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
G = DDP(nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)))
D = DDP(nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
opt_g = torch.optim.Adam(G.parameters(), 2e-4)
opt_d = torch.optim.Adam(D.parameters(), 2e-4)
bce = nn.BCEWithLogitsLoss()
torch.manual_seed(dist.get_rank())
for it in range(3):
    real, fake = torch.randn(5, 2), G(torch.randn(5, 3))
    opt_d.zero_grad()
    out_real = D(real)
    bce(out_real, torch.ones_like(out_real)).backward()
    out_fake = D(fake.detach())
    bce(out_fake, torch.zeros_like(out_fake)).backward()
    opt_d.step()
    opt_g.zero_grad()
    out = D(fake)
    bce(out, torch.ones_like(out)).backward()
    opt_g.step()
