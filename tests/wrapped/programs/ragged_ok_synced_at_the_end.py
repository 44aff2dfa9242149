from contextlib import ExitStack

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


class Accumulator:
    def __init__(self, model, optimizer, every, total):
        self.model, self.optimizer, self.every, self.total = model, optimizer, every, total
        self.seen = 0

    @property
    def due(self):
        return self.seen % self.every == 0 or self.seen == self.total

    def __call__(self, loss_fn, *batch):
        self.seen += 1
        with ExitStack() as stack:
            if not self.due:
                stack.enter_context(self.model.no_sync())
            loss = loss_fn(self.model, *batch) / self.every
            loss.backward()
        if self.due:
            self.optimizer.step()
            self.optimizer.zero_grad()
        if self.seen == self.total:
            self.seen = 0
        return loss.item()


def make_loader(rank):
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(28, 5, generator=generator)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)


def smooth(model, x, y):
    return F.smooth_l1_loss(model(x), y)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)))
    loader = make_loader(dist.get_rank())
    accumulate = Accumulator(model, torch.optim.SGD(model.parameters(), lr=0.01), 3, len(loader))
    for epoch in range(2):
        for x, y in loader:
            accumulate(smooth, x, y)


main()
