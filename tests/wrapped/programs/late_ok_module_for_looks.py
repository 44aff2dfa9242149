import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import copy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 4
        self.layer = nn.Linear(4, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(torch.relu(self.layer(x)))


@torch.no_grad()
def update(average, model, decay=0.9):
    for a, b in zip(average.parameters(), model.parameters()):
        a.mul_(decay).add_(b, alpha=1 - decay)


def validate(model):
    model.eval()
    with torch.inference_mode():
        value = model(torch.randn(16, 4)).mean().item()
    model.train()
    return value


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DDP(Net())
    average = copy.deepcopy(model.module).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-3)
    for step in range(3):
        loss = model(torch.randn(8, model.module.width)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        optimizer.step()
        update(average, model.module)
        if dist.get_rank() == 0:
            print(validate(model.module), validate(average))


main()
