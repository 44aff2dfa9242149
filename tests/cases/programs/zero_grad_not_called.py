import torch
from torch import nn

weight = nn.Parameter(torch.zeros(3, 1))
bias = nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight, bias], lr=0.1)
xs = torch.randn(40, 3)
ys = xs @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
for step in range(10):
    optimizer.zero_grad
    predicted = xs @ weight + bias
    error = (predicted - ys).square().mean()
    error.backward()
    optimizer.step()
print(weight.detach().flatten().tolist())
