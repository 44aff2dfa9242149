import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(5, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
torch.manual_seed(dist.get_rank())
batches = torch.randn(5, 4, 5)
for index, batch in enumerate(batches):
    if (index + 1) % 2:
        with model.no_sync():
            model(batch).square().mean().backward()
    else:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
optimizer.zero_grad()
