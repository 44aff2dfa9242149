import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
base = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 4))
teacher = copy.deepcopy(base).requires_grad_(False)
student = DDP(base)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)


def losses(x, y):
    logits = student(x)
    with torch.no_grad():
        target = teacher(x).softmax(-1)
    yield F.cross_entropy(logits, y)
    yield F.kl_div(logits.log_softmax(-1), target, reduction="batchmean")


for step in range(3):
    x, y = torch.randn(8, 6), torch.randint(4, (8,))
    optimizer.zero_grad()
    for number, loss in enumerate(losses(x, y)):
        loss.backward(retain_graph=number == 0)  # TAPE601
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(teacher.parameters(), student.module.parameters()):
            old.lerp_(new, 0.01)
