import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from torch.utils.checkpoint import checkpoint_sequential


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(4)])
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        x = checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)
        return self.out(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Deep())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for x in torch.randn(3, 5, 6):
    x.requires_grad_()
    out = model(x)
    slope, = torch.autograd.grad(out.sum(), x, retain_graph=True)
    print(slope.norm().item())
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
