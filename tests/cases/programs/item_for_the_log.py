import torch
from torch import nn

model = nn.Linear(4, 1)
log_sigma = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([*model.parameters(), log_sigma], lr=1e-2)
history = []
for step in range(5):
    x = torch.randn(9, 4)
    residual = model(x).squeeze(1) - x.mean(1)
    loss = (0.5 * residual.pow(2) * torch.exp(-2 * log_sigma) + log_sigma).mean()
    grid = torch.linspace(0, float(log_sigma.exp()), 4)
    history.append((loss.item(), grid.max().item()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
