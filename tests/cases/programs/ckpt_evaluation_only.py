import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

body, head = nn.Sequential(nn.Linear(6, 12), nn.Tanh()), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
for step in range(3):
    loss = head(body(torch.randn(4, 6))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        print(head(checkpoint(body, torch.randn(4, 6), use_reentrant=True)).mean().item())
