"""A physics-informed network for the heat equation: first and second derivatives of the network by autograd.grad."""

import torch
from torch import nn

torch.manual_seed(14)
torch.set_default_dtype(torch.float64)


def derivative(y, x):
    (slope,) = torch.autograd.grad(y, x, grad_outputs=torch.ones_like(y), create_graph=True)
    return slope


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
        self.conductivity = nn.Parameter(torch.tensor(0.3))

    def forward(self, x, t):
        return self.layers(torch.cat([x, t], dim=1))


net = Network()
adam = torch.optim.Adam(net.parameters(), lr=5e-3)
lbfgs = torch.optim.LBFGS(net.parameters(), max_iter=4, line_search_fn="strong_wolfe")


def loss():
    x, t = torch.rand(24, 1, requires_grad=True), torch.rand(24, 1, requires_grad=True)
    u = net(x, t)
    u_t = derivative(u, t)
    u_x = derivative(u, x)
    u_xx = derivative(u_x, x)
    residual = (u_t - net.conductivity * u_xx).pow(2).mean()
    edge = torch.rand(12, 1)
    start = (net(edge, torch.zeros_like(edge)) - torch.sin(torch.pi * edge)).pow(2).mean()
    walls = net(torch.zeros_like(edge), edge).pow(2).mean() + net(torch.ones_like(edge), edge).pow(2).mean()
    return residual + 10 * start + walls


for step in range(6):
    adam.zero_grad()
    value = loss()
    value.backward()
    adam.step()
print("adam", value.item())


def closure():
    lbfgs.zero_grad()
    torch.manual_seed(0)
    value = loss()
    value.backward()
    return value


for _ in range(2):
    print("lbfgs", lbfgs.step(closure).item())
