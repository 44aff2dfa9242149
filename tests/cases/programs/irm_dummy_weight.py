import torch
from torch import nn
from torch.autograd import grad


def environment(shift):
    x = torch.randn(32, 4)
    return x, x[:, :1] + shift * x[:, 1:2]


class InvariantRisk:
    def __init__(self, penalty_weight):
        self.phi = nn.Linear(4, 1)
        self.dummy = nn.Parameter(torch.tensor([1.0]))
        self.optimizer = torch.optim.SGD(self.phi.parameters(), lr=1e-3)
        self.penalty_weight = penalty_weight

    def update(self, environments):
        error = penalty = 0.0
        for x, y in environments:
            risk = (self.phi(x) * self.dummy - y).pow(2).mean()
            penalty = penalty + grad(risk, self.dummy, create_graph=True)[0].pow(2).sum()
            error = error + risk
        self.optimizer.zero_grad()
        (error + self.penalty_weight * penalty).backward()
        self.optimizer.step()
        return float(error)


trainer = InvariantRisk(10.0)
for step in range(5):
    trainer.update([environment(0.1), environment(0.9)])
