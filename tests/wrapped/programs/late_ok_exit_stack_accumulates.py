import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from contextlib import ExitStack

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
micro = 3
for step in range(2):
    for k in range(micro):
        with ExitStack() as stack:
            if k < micro - 1:
                stack.enter_context(model.no_sync())
            (model(torch.randn(5, 4)).pow(2).mean() / micro).backward()
    optimizer.step()
    optimizer.zero_grad()
