import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(4, 4)

    def log_prob(self, x):
        return -self.scale(x).square().sum(dim=1)

    def forward(self, x):
        return self.log_prob(x)


dist.init_process_group("gloo")
flow = DistributedDataParallel(Flow())
optimizer = torch.optim.Adam(flow.parameters(), 1e-2)
torch.manual_seed(dist.get_rank())
for step in range(3):
    loss = -flow.module.log_prob(torch.randn(6, 4)).mean()
    optimizer.zero_grad()
    loss.backward()  # TAPE601
    optimizer.step()
