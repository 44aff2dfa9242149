from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, accumulate=2, batches=6):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for index in range(batches):
        boundary = (index + 1) % accumulate == 0
        with nullcontext() if boundary else model.no_sync():
            loss = model(torch.randn(4, 6)).square().mean() / accumulate
            loss.backward()
        if boundary:
            optimizer.step()
            optimizer.zero_grad()


dist.init_process_group("gloo")
net = DDP(nn.Sequential(nn.Linear(6, 6), nn.SiLU(), nn.Linear(6, 2)))
torch.manual_seed(dist.get_rank())
train(net)
