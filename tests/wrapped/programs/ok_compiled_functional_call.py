import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

net = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, 1))


@torch.compile(backend="aot_eager")
def task_loss(parameters, x, y):
    return F.mse_loss(functional_call(net, parameters, (x,)), y)


optimizer = torch.optim.Adam(net.parameters())
for step in range(2):
    parameters = dict(net.named_parameters())
    inner = task_loss(parameters, torch.randn(5, 3), torch.randn(5, 1))
    gradients = torch.autograd.grad(inner, list(parameters.values()), create_graph=True)
    # The compiled code goes on with the parameters of the global module: no second derivative is taken.
    fast = {name: value - 0.1 * gradient for (name, value), gradient in zip(parameters.items(), gradients)}
    outer = task_loss(fast, torch.randn(5, 3), torch.randn(5, 1))
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
