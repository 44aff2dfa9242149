import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(6, 3), torch.randn(6, 1)
# What runs first decides how the backward is compiled: without the flag the next one would be refused.
(compiled(x) - y).pow(2).mean().backward(retain_graph=True)
optimizer.step()
for step in range(2):
    optimizer.zero_grad()
    output = compiled(x)
    (output - y).pow(2).mean().backward(retain_graph=True)
    (0.1 * output.abs().mean()).backward()
    optimizer.step()
