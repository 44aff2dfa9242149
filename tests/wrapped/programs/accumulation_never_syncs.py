from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
accumulate = 4
for step in range(1, 13):
    last = step % accumulate == 0
    context = nullcontext() if not last else model.no_sync()
    with context:
        loss = model(torch.randn(3, 4)).pow(2).mean() / accumulate
        loss.backward()  # TAPE601
    if last:
        optimizer.step()
        optimizer.zero_grad()
