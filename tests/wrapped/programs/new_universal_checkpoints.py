import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Universal(nn.Module):
    """One layer that is applied several times."""

    def __init__(self, width, rounds, save_memory):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 3)
        self.rounds = rounds
        self.save_memory = save_memory

    def forward(self, x):
        for _ in range(self.rounds):
            if self.save_memory and self.training:
                x = checkpoint(self.layer, x, use_reentrant=True)
            else:
                x = self.layer(x)
        return self.head(x.mean(1))


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--checkpointing", action="store_false")
args = parser.parse_args([])
dist.init_process_group("gloo")
model = DDP(Universal(8, args.rounds, args.checkpointing))
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(dist.get_rank())
for _ in range(2):
    x = torch.randn(2, 5, 8, requires_grad=True)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # TAPE601
    optimizer.step()
