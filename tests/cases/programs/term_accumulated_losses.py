import torch
from torch import nn

model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = 0.0
    for part in range(3):
        loss = loss + nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(0, 2, (5,))) / 3
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
