import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
stages = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
model = DDP(stages)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    x, y = torch.randn(8, 6), torch.randn(8, 2)
    total = x.new_zeros(())
    for part, wanted in zip(x.chunk(4), y.chunk(4)):
        total = total + F.mse_loss(model(part), wanted) / 4
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
