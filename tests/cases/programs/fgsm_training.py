import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x, y = torch.rand(5, 6, requires_grad=True), torch.randint(0, 3, (5,))
    nn.functional.cross_entropy(model(x), y).backward()
    attacked = (x + 0.1 * x.grad.sign()).detach()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(attacked), y).backward()
    optimizer.step()
