import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
import contextlib

torch.manual_seed(dist.get_rank())
model = DDP(nn.Linear(4, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    micro = [torch.randn(3, 4) for _ in range(3)]
    for k, x in enumerate(micro):
        with model.no_sync() if k < len(micro) - 1 else contextlib.nullcontext():
            (model(x).pow(2).mean() / len(micro)).backward()
    opt.step()
    opt.zero_grad()
