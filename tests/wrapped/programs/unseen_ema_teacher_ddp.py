import copy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn, optim
import torch.nn.parallel as parallel

dist.init_process_group("gloo")
torch.manual_seed(100 + dist.get_rank())
student = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 3))
teacher = copy.deepcopy(student)
for p in teacher.parameters():
    p.requires_grad_(False)
ddp = parallel.DistributedDataParallel(student)
opt = optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
for it in range(3):
    x = torch.randn(4, 5)
    with torch.no_grad():
        target = teacher(x).softmax(-1)
    loss = F.kl_div(ddp(x).log_softmax(-1), target, reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(teacher.parameters(), ddp.module.parameters()):
            p.mul_(0.99).add_(q, alpha=0.01)
