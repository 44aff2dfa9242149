import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(5, 4)
    y = model(x)
    consistency = (y[1:] - y[:-1]).pow(2).mean()
    main = y.pow(2).mean()
    opt.zero_grad()
    main.backward(retain_graph=True)
    consistency.backward()  # TAPE601
    opt.step()
