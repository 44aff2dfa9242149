import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
fast = torch.compile(net, backend="aot_eager")
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    x = torch.randn(4, 3)
    opt.zero_grad()
    fast(x).mean().backward()
    grads = torch.autograd.grad(net(x).mean(), list(net.parameters()), create_graph=True)
    v = [torch.ones_like(g) for g in grads]
    dot = sum((g * w).sum() for g, w in zip(grads, v))
    hvp = torch.autograd.grad(dot, list(net.parameters())[:1])
    opt.step()
