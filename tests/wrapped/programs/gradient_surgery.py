import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    out = model(torch.randn(6, 4))
    first, second = out[:, 0].pow(2).mean(), out[:, 1].abs().mean()
    parameters = list(model.parameters())
    one = torch.autograd.grad(first, parameters, retain_graph=True)
    other = torch.autograd.grad(second, parameters)  # TAPE601
    for parameter, a, b in zip(parameters, one, other):
        parameter.grad = a + b
    optimizer.step()
