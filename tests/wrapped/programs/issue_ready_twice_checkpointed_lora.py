import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint


class Adapter(nn.Module):
    def __init__(self, size=6, rank=2):
        super().__init__()
        self.base = nn.Linear(size, size)
        self.base.requires_grad_(False)
        self.down = nn.Linear(size, rank, bias=False)
        self.up = nn.Linear(rank, size, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Adapter() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return x


dist.init_process_group("gloo")
model = DistributedDataParallel(Decoder(), find_unused_parameters=True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step in range(2):
    hidden = torch.randn(4, 6, requires_grad=True)
    loss = model(hidden).square().mean()
    optimizer.zero_grad()
    loss.backward()  # TAPE605
    optimizer.step()
