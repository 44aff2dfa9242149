import torch
from torch import nn


class Constrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = nn.Linear(3, 1)
        self.multiplier = torch.zeros(1, requires_grad=True)

    def loss(self, x):
        y = self.policy(x)
        violation = (y.abs() - 1).relu().mean()
        return (y - 2).pow(2).mean() + self.multiplier.exp() * violation, violation


problem = Constrained()
optimizer = torch.optim.Adam(problem.parameters(), lr=1e-2)
for step in range(5):
    loss, violation = problem.loss(torch.randn(16, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    problem.multiplier.data += 0.1 * violation.item()
