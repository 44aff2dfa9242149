from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 3


def make_loader(rank):
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(28, 5, generator=generator)
    y = x.sum(1, keepdim=True) + 0.1 * torch.randn(28, 1, generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=4)


def train_epoch(model, loader, optimizer, scheduler):
    optimizer.zero_grad()
    total = 0.0
    for index, (x, y) in enumerate(loader):
        full = (index + 1) % ACCUMULATE == 0
        context = nullcontext() if full else model.no_sync()
        with context:
            loss = F.smooth_l1_loss(model(x), y) / ACCUMULATE
            loss.backward()  # TAPE601
        total += loss.item()
        if full or index + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    scheduler.step()
    return total / len(loader)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    loader = make_loader(rank)
    for epoch in range(2):
        mean = train_epoch(model, loader, optimizer, scheduler)
        if rank == 0:
            print(epoch, mean)


main()
