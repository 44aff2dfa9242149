import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4


@contextlib.contextmanager
def maybe_sync(model, micro):
    last = micro == ACCUMULATE - 1
    with model.no_sync() if last else contextlib.nullcontext():
        yield


dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(nn.Sequential(nn.Linear(5, 10), nn.SiLU(), nn.Linear(10, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
torch.manual_seed(10 + dist.get_rank())
for step in range(2):
    for micro in range(ACCUMULATE):
        x = torch.randn(4, 5)
        with maybe_sync(model, micro):
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean() / ACCUMULATE
            loss.backward()  # TAPE601
    optimizer.step()
    optimizer.zero_grad()
