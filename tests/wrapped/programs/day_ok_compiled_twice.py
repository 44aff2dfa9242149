import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), backend="aot_eager")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    clean, noisy = torch.randn(6, 4), torch.randn(6, 4)
    y = torch.randint(2, (6,))
    opt.zero_grad()
    F.cross_entropy(net(clean), y).backward()
    F.cross_entropy(net(noisy), y).mul(0.5).backward()
    opt.step()
