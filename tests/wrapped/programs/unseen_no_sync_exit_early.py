import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Linear(4, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
micro = [torch.randn(2, 4) for _ in range(4)]
for epoch in range(2):
    opt.zero_grad()
    with model.no_sync():
        for x in micro[:-1]:
            (model(x).abs().mean() / len(micro)).backward()
    (model(micro[-1]).abs().mean() / len(micro)).backward()
    opt.step()
