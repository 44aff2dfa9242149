import torch
from torch import nn

left, right = nn.Linear(4, 3), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1)
for step in range(4):
    x = torch.randn(7, 4)
    loss = (left(x) * right(x)).sum(1).pow(2).mean()
    loss.backward()
    optimizer.step()
    for p in left.parameters():
        p.grad = None
    for p in right.parameters():
        if p.grad is not None:
            p.grad.detach_()
            p.grad.zero_()
