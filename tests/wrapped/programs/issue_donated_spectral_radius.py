import torch
from torch import nn

torch.manual_seed(0)
cell = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
step = torch.compile(cell, backend="aot_eager")
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
for iteration in range(3):
    z = torch.zeros(6, 4).requires_grad_()
    out = step(z)
    optimizer.zero_grad()
    out.pow(2).mean().backward()
    optimizer.step()
    z = out.detach().requires_grad_()
    out, v = step(z), torch.randn(6, 4)
    for _ in range(3):
        (v,) = torch.autograd.grad(out, z, v, retain_graph=True)  # TAPE611
        v = v / v.norm()
