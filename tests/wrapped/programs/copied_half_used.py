import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 2)
        self.spread = nn.Linear(4, 2)

    def forward(self, x):
        return self.mean(x), self.spread(x).exp()


dist.init_process_group("gloo")
teacher = DDP(Net())
model = copy.deepcopy(teacher)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(2):
    mean, _ = model(torch.randn(6, 4))  # TAPE602
    optimizer.zero_grad()
    mean.pow(2).mean().backward()
    optimizer.step()
