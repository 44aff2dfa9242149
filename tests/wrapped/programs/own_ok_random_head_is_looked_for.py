import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MultiTask(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.trunk = nn.Linear(5, 7)
        self.heads = nn.ModuleDict({task: nn.Linear(7, 1) for task in tasks})

    def forward(self, x, task):
        return self.heads[task](torch.tanh(self.trunk(x)))


dist.init_process_group("gloo")
tasks = ["depth", "normal"]
model = DDP(MultiTask(tasks), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    task = tasks[step % 2]
    optimizer.zero_grad()
    prediction = model(torch.randn(3, 5), task)
    prediction.pow(2).mean().backward()
    optimizer.step()
