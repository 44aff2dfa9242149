import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

backbone = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))
backbone.requires_grad_(False)
head = nn.Linear(8, 3)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(3):
    features = checkpoint(backbone, torch.randn(12, 6), use_reentrant=True)
    loss = nn.functional.cross_entropy(head(features), torch.randint(0, 3, (12,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
