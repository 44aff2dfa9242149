import torch
from torch import nn

accumulation = 4
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for i in range(12):
    optimizer.zero_grad()
    x, y = torch.randn(3, 6), torch.randint(0, 2, (3,))
    loss = nn.functional.cross_entropy(net(x), y) / accumulation
    loss.backward()
    if (i + 1) % accumulation == 0:
        optimizer.step()
