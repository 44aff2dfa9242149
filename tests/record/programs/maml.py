"""Model-agnostic meta-learning of sine waves: an inner loop whose steps stay in the graph of the outer one."""

import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(7)


class Wave:
    def __init__(self):
        self.amplitude = torch.empty(()).uniform_(0.1, 5.0)
        self.phase = torch.empty(()).uniform_(0, 3.14)

    def draw(self, count):
        x = torch.empty(count, 1).uniform_(-5, 5)
        return x, self.amplitude * torch.sin(x + self.phase)


class Learner:
    def __init__(self, inner_lr=0.01, first_order=False):
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
        self.inner_lr, self.first_order = inner_lr, first_order
        self.meta = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def loss(self, weights, x, y):
        return nn.functional.mse_loss(functional_call(self.net, weights, (x,)), y)

    def adapt(self, wave, steps):
        weights = dict(self.net.named_parameters())
        for _ in range(steps):
            x, y = wave.draw(10)
            inner = self.loss(weights, x, y)
            slopes = torch.autograd.grad(inner, tuple(weights.values()), create_graph=not self.first_order)
            weights = {name: w - self.inner_lr * g for (name, w), g in zip(weights.items(), slopes)}
        return weights

    def outer(self, waves, steps):
        self.meta.zero_grad()
        total = 0
        for wave in waves:
            adapted = self.adapt(wave, steps)
            total = total + self.loss(adapted, *wave.draw(10))
        total = total / len(waves)
        total.backward()
        self.meta.step()
        return total.item()


for first_order in (False, True):
    learner = Learner(first_order=first_order)
    print("first order" if first_order else "second order", [learner.outer([Wave() for _ in range(3)], 3) for _ in range(4)])
net = learner.net
