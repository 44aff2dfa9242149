import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    out = net(torch.randn(7, 4))
    kept = []
    for task in range(2):
        optimizer.zero_grad()
        out[:, task].pow(2).mean().backward(retain_graph=task == 0)
        kept.append([p.grad.clone() for p in net.parameters()])
    optimizer.zero_grad()
    for p, a, b in zip(net.parameters(), *kept):
        dot = (a * b).sum()
        p.grad = a + b if dot >= 0 else a + b - dot / (a.norm() ** 2 + 1e-12) * a
    optimizer.step()
