import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

body, head = nn.Sequential(nn.Linear(6, 32), nn.GELU()), nn.Linear(32, 3)
optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()])
for step in range(3):
    x = torch.randn(12, 6).requires_grad_(True)
    features = checkpoint(body, x, use_reentrant=True)
    loss = nn.functional.cross_entropy(head(features), torch.randint(0, 3, (12,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
