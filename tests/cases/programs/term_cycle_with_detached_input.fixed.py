import torch
from torch import nn

there = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))
back = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))
critic = nn.Linear(6, 1)
opt_there = torch.optim.Adam(there.parameters(), lr=2e-3)
opt_back = torch.optim.Adam(back.parameters(), lr=2e-3)

for step in range(4):
    a, b = torch.randn(8, 6), torch.randn(8, 6)
    translated = there(a)
    adversarial = -critic(translated).mean()
    cycle = (back(translated) - a).abs().mean()
    loss_there = adversarial + 10.0 * cycle
    opt_there.zero_grad()
    loss_there.backward()
    opt_there.step()

    opt_back.zero_grad()
    loss_back = (back(there(a).detach()) - a).abs().mean()
    loss_back.backward()
    opt_back.step()
