import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



class Tasks(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.trunk = nn.Linear(5, 8)
        self.heads = nn.ModuleDict({name: nn.Linear(8, size) for name, size in names.items()})

    def forward(self, x, task):
        return self.heads[task](F.relu(self.trunk(x)))


def batches():
    for number in range(4):
        task = ("age", "sex")[number % 2]
        yield task, torch.randn(4, 5), torch.randn(4, {"age": 1, "sex": 2}[task])


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Tasks({"age": 1, "sex": 2}))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
torch.manual_seed(dist.get_rank())
for task, x, y in batches():
    optimizer.zero_grad()
    F.mse_loss(model(x, task), y).backward()  # TAPE602
    optimizer.step()
