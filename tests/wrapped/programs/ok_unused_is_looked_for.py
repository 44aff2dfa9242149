import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(4, 2) for _ in range(3)])

    def forward(self, x, which):
        return self.experts[which](x)


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Experts(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(6):
    loss = model(torch.randn(6, 4), step % 3).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
