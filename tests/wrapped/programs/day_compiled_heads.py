import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class Multi(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 8)
        self.depth = nn.Linear(8, 1)
        self.normal = nn.Linear(8, 3)

    def forward(self, x):
        h = self.trunk(x).relu()
        return {"depth": self.depth(h), "normal": self.normal(h.detach())}


def train(net, data):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in data:
        out = net(x)
        opt.zero_grad()
        out["depth"].abs().mean().backward()
        out["normal"].pow(2).mean().backward()  # TAPE603
        opt.step()


torch.manual_seed(0)
net = Multi()
net = torch.compile(net, backend="aot_eager")
train(net, [torch.randn(5, 4) for _ in range(3)])
