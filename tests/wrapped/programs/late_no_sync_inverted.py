import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from contextlib import nullcontext


def train(model, optimizer, accumulation=2):
    for i in range(4):
        last = (i + 1) % accumulation == 0
        context = model.no_sync() if last else nullcontext()
        with context:
            loss = model(torch.randn(4, 3)).mean() / accumulation
            loss.backward()  # TAPE601
        if last:
            optimizer.step()
            optimizer.zero_grad()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Linear(3, 2))
train(model, torch.optim.SGD(model.parameters(), lr=0.1))
