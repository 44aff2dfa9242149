import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

body = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 16))
head = nn.Linear(16, 3)
optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-3)

for step in range(4):
    x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
    features = checkpoint(body, x, use_reentrant=True)
    loss = nn.functional.cross_entropy(head(features), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
