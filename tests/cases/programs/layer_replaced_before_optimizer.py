import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 100))
model[2] = nn.Linear(8, 3)
model.requires_grad_(True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
