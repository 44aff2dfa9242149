import torch
from torch import nn


class Experts(nn.Module):
    def __init__(self, names, dim=5):
        super().__init__()
        self.gate = nn.Linear(dim, len(names))
        self.experts = nn.ModuleDict({name: nn.Linear(dim, dim) for name in names})

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        outputs = torch.stack([expert(x) for expert in self.experts.values()], dim=-1)
        return (outputs * weights.unsqueeze(1)).sum(-1)


class Trainer:
    def __init__(self):
        self.model = Experts(["sports", "news", "other"])
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def run(self, steps=4):
        for _ in range(steps):
            x = torch.randn(9, 5)
            loss = (self.model(x) - x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


Trainer().run()
