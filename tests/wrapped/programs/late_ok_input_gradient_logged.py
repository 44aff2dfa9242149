import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(3, 6), nn.SiLU(), nn.Linear(6, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.randint(0, 2, (4,))
    loss = F.cross_entropy(model(x), y)
    sensitivity = torch.autograd.grad(loss, x, retain_graph=True)[0].norm().item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item(), sensitivity)
