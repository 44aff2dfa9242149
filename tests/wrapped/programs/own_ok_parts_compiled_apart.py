import torch
from torch import nn

trunk = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
left = torch.compile(nn.Linear(8, 1), backend="aot_eager")
right = torch.compile(nn.Linear(8, 3), backend="aot_eager")
opt = torch.optim.SGD([*trunk.parameters(), *left.parameters(), *right.parameters()], 0.05)
for _ in range(3):
    h = trunk(torch.randn(5, 6))
    regression = left(h).pow(2).mean()
    classes = nn.functional.cross_entropy(right(h), torch.randint(0, 3, (5,)))
    opt.zero_grad()
    regression.backward(retain_graph=True)
    classes.backward()
    opt.step()
