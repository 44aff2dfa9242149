import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(nn.Linear(5, 5))
mask = nn.Parameter(torch.zeros(5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
opt_mask = torch.optim.SGD([mask], lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    gate = torch.sigmoid(mask)
    for micro in range(3):
        last = micro == 2
        with contextlib.nullcontext() if last else model.no_sync():
            loss = (model(torch.randn(4, 5)) * gate).square().mean() / 3
            loss.backward(retain_graph=not last)
    dist.all_reduce(mask.grad)
    mask.grad /= dist.get_world_size()
    optimizer.step()
    opt_mask.step()
    optimizer.zero_grad()
    opt_mask.zero_grad()
