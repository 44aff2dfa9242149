import torch
from torch import nn

ACCUMULATE = 4
net = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for i in range(12):
    x, y = torch.randn(4, 10), torch.randint(0, 3, (4,))
    loss = nn.functional.cross_entropy(net(x), y) / ACCUMULATE
    loss.backward()
    if (i + 1) % ACCUMULATE == 0:
        opt.step()
        opt.zero_grad()
