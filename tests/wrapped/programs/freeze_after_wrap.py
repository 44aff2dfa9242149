import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
backbone = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
head = nn.Linear(8, 2)
model = DDP(nn.Sequential(backbone, head))
for parameter in backbone.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.randn(5, 4)).pow(2).mean()  # TAPE602
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
