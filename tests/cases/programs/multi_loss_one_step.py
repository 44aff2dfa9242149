import torch
from torch import nn

body = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
heads = nn.ModuleList([nn.Linear(12, 2) for _ in range(3)])
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()])
for step in range(3):
    optimizer.zero_grad()
    for head in heads:
        loss = nn.functional.cross_entropy(head(body(torch.randn(4, 6))), torch.randint(0, 2, (4,)))
        loss.backward()
    optimizer.step()
