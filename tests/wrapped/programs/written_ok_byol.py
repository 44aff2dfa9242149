import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Online(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4))
        self.predictor = nn.Linear(4, 4)

    def forward(self, x):
        return self.predictor(self.encoder(x))


@torch.no_grad()
def update(target, online, decay):
    for mine, theirs in zip(target.parameters(), online.parameters()):
        mine.lerp_(theirs, 1 - decay)


dist.init_process_group("gloo")
torch.manual_seed(0)
online = DDP(Online())
target = copy.deepcopy(online.module.encoder).requires_grad_(False)
optimizer = torch.optim.SGD(online.parameters(), lr=0.05)
torch.manual_seed(dist.get_rank())
for _ in range(3):
    one, two = torch.randn(8, 6), torch.randn(8, 6)
    with torch.no_grad():
        aims = target(two), target(one)
    loss = sum(1 - nn.functional.cosine_similarity(online(view), aim).mean() for view, aim in zip((one, two), aims))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update(target, online.module.encoder, 0.99)
