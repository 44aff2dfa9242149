import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def hutchinson(parameters):
    parameters = [p for p in parameters if p.grad is not None]
    signs = [torch.randint_like(p, 2) * 2 - 1 for p in parameters]
    products = torch.autograd.grad([p.grad for p in parameters], parameters, signs)
    return [(s * h).abs().mean() for s, h in zip(signs, products)]


dist.init_process_group("gloo")
model = DDP(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(dist.get_rank())
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 3, (4,)))
    loss.backward(create_graph=True)  # TAPE607
    curvature = hutchinson(model.parameters())
    optimizer.step()
