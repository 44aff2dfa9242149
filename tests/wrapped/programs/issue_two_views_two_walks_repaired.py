import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
encoder = DistributedDataParallel(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4)))
optimizer = torch.optim.SGD(encoder.parameters(), 0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    x = torch.randn(6, 5)
    one, two = encoder(x + 0.1 * torch.randn_like(x)), encoder(x + 0.1 * torch.randn_like(x))
    optimizer.zero_grad()
    (one.square().mean() + two.abs().mean()).backward()
    optimizer.step()
