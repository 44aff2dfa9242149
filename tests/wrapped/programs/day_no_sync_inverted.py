import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
from contextlib import nullcontext

torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
accum = 4
for i in range(8):
    last = (i + 1) % accum == 0
    ctx = model.no_sync() if last else nullcontext()
    with ctx:
        loss = model(torch.randn(6, 4)).pow(2).mean() / accum
        loss.backward()  # TAPE601
    if last:
        opt.step()
        opt.zero_grad(set_to_none=True)
