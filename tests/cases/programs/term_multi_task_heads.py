import torch
from torch import nn

trunk = nn.Linear(6, 8).requires_grad_(False)
left, right = nn.Linear(8, 2), nn.Linear(8, 1)
optimizer = torch.optim.AdamW([*left.parameters(), *right.parameters()])
for step in range(4):
    h = torch.relu(trunk(torch.randn(10, 6)))
    first = nn.functional.cross_entropy(left(h), torch.randint(0, 2, (10,)))
    second = right(h).pow(2).mean()
    loss = first + second
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
