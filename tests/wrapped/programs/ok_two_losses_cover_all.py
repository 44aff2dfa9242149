import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 2)
        self.right = nn.Linear(4, 2)

    def forward(self, x):
        return self.left(x), self.right(x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Two())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(3):
    left, right = model(torch.randn(6, 4))
    optimizer.zero_grad()
    left.pow(2).mean().backward()
    right.pow(2).mean().backward()
    optimizer.step()
