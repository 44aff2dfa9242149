import torch
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5) / 3)
        self.out = nn.Parameter(torch.randn(4, 8) / 3)

    def forward(self, x):
        return torch.tanh(x @ self.weight.t()) @ self.out.t()


class Curiosity:
    def __init__(self):
        self.target, self.predictor = Features(), Features()
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), lr=1e-3)

    def bonus(self, observations):
        return (self.target(observations) - self.predictor(observations)).pow(2).mean(1)

    def update(self, observations):
        loss = self.bonus(observations).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


curiosity = Curiosity()
for rollout in range(5):
    print(curiosity.update(torch.randn(16, 5)))
