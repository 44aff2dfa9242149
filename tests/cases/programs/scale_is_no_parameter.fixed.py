import torch
from torch import nn


class ScaledTanh(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.alpha = nn.Parameter(torch.ones(features))

    def forward(self, x):
        return self.alpha * torch.tanh(self.linear(x))


block = nn.Sequential(ScaledTanh(4), nn.Linear(4, 1))
opt = torch.optim.RMSprop(block.parameters(), lr=1e-3)
for _ in range(5):
    opt.zero_grad()
    block(torch.randn(3, 4)).sum().backward()
    opt.step()
