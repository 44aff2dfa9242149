import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 2)
        self.aux = nn.Linear(8, 2)

    def forward(self, x, use_aux):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x).relu()
        return self.aux(x) if use_aux else self.head(x)


torch.manual_seed(dist.get_rank())
model = DDP(Dropped())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    out = model(torch.randn(5, 4), use_aux=step % 2 == 1)  # TAPE602
    loss = out.square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
