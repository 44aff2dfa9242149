import argparse
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Options:
    find_unused: bool = True
    experts: int = 3


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--find-unused", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--experts", type=int, default=3)
    return Options(**vars(parser.parse_args([])))


class Mixture(nn.Module):
    def __init__(self, experts):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(5, 2) for _ in range(experts))

    def forward(self, x, which):
        return self.experts[which](x)


opts = options()
dist.init_process_group("gloo")
model = DDP(Mixture(opts.experts), find_unused_parameters=opts.find_unused)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(4):
    loss = model(torch.randn(3, 5), step % opts.experts).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
