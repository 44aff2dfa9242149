import torch
import torch.utils.checkpoint as ckpt
from torch import nn


class Stage(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, padding=1, stride=2)
        self.norm = nn.GroupNorm(2, o)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self, save_memory=True):
        super().__init__()
        self.first, self.second, self.third = Stage(1, 4), Stage(4, 8), Stage(8, 8)
        self.bias = nn.Parameter(torch.zeros(4))
        self.head = nn.Linear(8, 2)
        self.save_memory = save_memory

    def forward(self, x):
        if self.save_memory:
            x = ckpt.checkpoint(self.first, x)
            x = x + self.bias[:, None, None]
            x = ckpt.checkpoint(self.second, x, use_reentrant=True)
            x = ckpt.checkpoint(self.third, x, use_reentrant=True)
        else:
            x = self.third(self.second(self.first(x) + self.bias[:, None, None]))
        return self.head(x.mean((2, 3)))


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for i in range(3):
    loss = nn.functional.cross_entropy(net(torch.randn(2, 1, 16, 16)), torch.randint(0, 2, (2,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
