import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
online = DDP(nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)))
target = copy.deepcopy(online.module).requires_grad_(False)
optimizer = torch.optim.SGD(online.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())


def info_nce(a, b):
    logits = F.normalize(a) @ F.normalize(b).T / 0.2
    return F.cross_entropy(logits, torch.arange(len(a)))


for step in range(3):
    x = torch.randn(5, 6)
    views = [x + 0.1 * torch.randn_like(x) for _ in range(2)]
    q1, q2 = online(views[0]), online(views[1])
    with torch.no_grad():
        for mine, theirs in zip(target.parameters(), online.module.parameters()):
            mine.lerp_(theirs, 0.01)
        k1, k2 = target(views[0]), target(views[1])
    loss = info_nce(q1, k2) + info_nce(q2, k1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
