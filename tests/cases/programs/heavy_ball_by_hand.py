import torch
from torch import nn

model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(5):
    loss = (model(torch.randn(9, 5)) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
    for p in model.parameters():
        p.grad.mul_(0.9)
