import torch
from torch import nn


def build():
    backbone = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))
    return backbone, nn.Linear(8, 3)


backbone, head = build()
optimizer = torch.optim.SGD([
    {"params": backbone.parameters(), "lr": 1e-4},
    {"params": head.parameters(), "lr": 1e-2},
], momentum=0.9)
for epoch in range(4):
    x, y = torch.randn(10, 12), torch.randint(0, 3, (10,))
    loss = nn.functional.cross_entropy(head(backbone(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
