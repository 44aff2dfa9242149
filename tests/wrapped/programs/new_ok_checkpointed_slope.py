import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        self.out = nn.Linear(6, 1)

    def forward(self, x):
        for _ in range(3):
            x = checkpoint(self.block, x, use_reentrant=False)
        return self.out(x)


dist.init_process_group("gloo")
model = DDP(Shared(), gradient_as_bucket_view=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for _ in range(3):
    x = torch.randn(4, 6, requires_grad=True)
    score = model(x)
    (slope,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    loss = score.mean() + slope.square().sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
