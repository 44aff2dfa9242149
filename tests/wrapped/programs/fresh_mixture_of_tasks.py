import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TASKS = {"depth": 1, "normals": 3}


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 10), nn.ReLU())
        self.decoders = nn.ModuleDict({name: nn.Linear(10, size) for name, size in TASKS.items()})

    def forward(self, x, task):
        return self.decoders[task](self.backbone(x))


def train():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(MultiTask())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(4):
        task = list(TASKS)[step % 2]
        prediction = model(torch.randn(5, 6), task)  # TAPE602
        loss = (prediction - torch.randn(5, TASKS[task])).abs().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train()
