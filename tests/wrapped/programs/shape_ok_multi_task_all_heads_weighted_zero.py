import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



class Tasks(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.trunk = nn.Linear(5, 8)
        self.heads = nn.ModuleList([nn.Linear(8, size) for size in sizes])

    def forward(self, x):
        h = F.relu(self.trunk(x))
        return [head(h) for head in self.heads]


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Tasks([1, 2, 3]))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
torch.manual_seed(dist.get_rank())
for number in range(6):
    weights = [float(number % 3 == task) for task in range(3)]
    outs = model(torch.randn(4, 5))
    loss = sum(weight * out.square().mean() for weight, out in zip(weights, outs))
    optimizer.zero_grad()
    loss.backward()
    if number == 3:
        with torch.no_grad():
            print([out.mean().item() for out in model.module(torch.randn(2, 5))])
    optimizer.step()
