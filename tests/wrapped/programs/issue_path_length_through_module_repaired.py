import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
generator = DistributedDataParallel(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)))
optimizer = torch.optim.Adam(generator.parameters(), 1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    optimizer.zero_grad()
    generator(torch.randn(6, 3)).mean().backward()
    optimizer.step()
    style = torch.randn(6, 3, requires_grad=True)
    images = generator(style)
    (slope,) = torch.autograd.grad((images * torch.randn_like(images)).sum(), style, create_graph=True)
    penalty = (slope.norm(dim=1) - 1).square().mean()
    optimizer.zero_grad()
    (penalty + 0 * images.sum()).backward()
    optimizer.step()
