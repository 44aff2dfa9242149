import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
model = DDP(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
params = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.SGD(params, lr=0.1)
torch.manual_seed(7 * dist.get_rank())
for _ in range(3):
    out = model(torch.randn(8, 4))
    tasks = [out[:, 0].pow(2).mean(), out[:, 1].abs().mean()]
    per_task = [torch.autograd.grad(t, params, retain_graph=True, allow_unused=True) for t in tasks]  # TAPE601
    for p, a, b in zip(params, *per_task):
        p.grad = a + b
    opt.step()
