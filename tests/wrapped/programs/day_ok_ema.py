import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
import copy

torch.manual_seed(dist.get_rank())
student = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
model = student
teacher = copy.deepcopy(student.module).requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(6, 4)
    with torch.no_grad():
        target = teacher(x).softmax(-1)
    loss = F.cross_entropy(student(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for t, s in zip(teacher.parameters(), student.module.parameters()):
            t.lerp_(s, 0.1)
