import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x, head_only=False):
        h = self.trunk(x).relu()
        return self.head(h.detach() if head_only else h)


def stage(net, steps, **options):
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(steps):
        loss = model(torch.randn(5, 4), **options).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = Net()
stage(net, 3)
net.trunk.requires_grad_(False)
stage(net, 3, head_only=True)
