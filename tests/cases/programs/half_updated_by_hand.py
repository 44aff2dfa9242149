import torch
from torch import nn


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.slow = nn.Linear(5, 5)
        self.fast = nn.Linear(5, 1)

    def forward(self, x):
        return self.fast(torch.tanh(self.slow(x)))


model = Both()
optimizer = torch.optim.Adam(model.slow.parameters(), lr=1e-3)
for step in range(4):
    loss = (model(torch.randn(7, 5)) - 1).pow(2).mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p in model.fast.parameters():
            p -= 0.05 * p.grad
