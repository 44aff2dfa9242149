import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(3)
trunk = nn.Sequential(nn.Linear(4, 8), nn.Sigmoid())
top = nn.Linear(8, 1)
out = top(checkpoint(trunk, torch.randn(5, 4), use_reentrant=False))
out.sum().backward()
for name, parameter in [*trunk.named_parameters(), *top.named_parameters()]:
    print(name, parameter.grad is not None)
