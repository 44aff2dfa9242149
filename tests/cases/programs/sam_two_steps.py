import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
    nn.functional.cross_entropy(model(x), y).backward()
    moved = []
    with torch.no_grad():
        norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        for p in model.parameters():
            e = p.grad * 0.05 / (norm + 1e-12)
            p.add_(e)
            moved.append(e)
    model.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), moved):
            p.sub_(e)
    optimizer.step()
    optimizer.zero_grad()
