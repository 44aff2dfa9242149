import torch
from torch import nn

backbone, head = nn.Linear(6, 8), nn.Linear(8, 2)
backbone.requires_grad_(False)
optimizer = torch.optim.SGD([
    {"params": backbone.parameters(), "lr": 1e-4},
    {"params": head.parameters(), "lr": 1e-2},
])
for epoch in range(6):
    if epoch == 2:
        for p in backbone.parameters():
            p.requires_grad = True
    for _ in range(2):
        loss = nn.functional.cross_entropy(head(backbone(torch.randn(4, 6)).relu()), torch.randint(0, 2, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
