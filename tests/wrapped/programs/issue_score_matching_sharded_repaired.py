import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")


def score(energy, x):
    x = x.requires_grad_()
    return -torch.autograd.grad(energy(x).sum(), x, create_graph=True)[0]


model = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1, bias=False))
model = DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    data = torch.randn(8, 2)
    noise = 0.1 * torch.randn_like(data)
    loss = (score(model, data + noise) + noise / 0.01).pow(2).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
