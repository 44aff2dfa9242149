import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

frozen, block, adapter = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.GELU()), nn.Linear(4, 4)
head = nn.Linear(4, 2)
wanted = [*adapter.parameters()]
x = adapter(frozen(torch.randn(3, 4)))
for _ in range(2):
    x = checkpoint(block, x, use_reentrant=False)
head(x).pow(2).mean().backward(inputs=wanted)
