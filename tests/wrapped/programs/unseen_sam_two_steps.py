import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 4)
    opt.zero_grad()
    model(x).pow(2).mean().backward()
    shifts = []
    with torch.no_grad():
        for p in model.parameters():
            e = 0.05 * p.grad / (p.grad.norm() + 1e-12)
            p.add_(e)
            shifts.append(e)
    opt.zero_grad()
    model(x).pow(2).mean().backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), shifts):
            p.sub_(e)
    opt.step()
