import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=1e-3)


def task_losses(tasks):
    net.eval()
    found = []
    for x, y in tasks:
        found.append(nn.functional.mse_loss(net(x), y))
    return found


for step in range(4):
    tasks = [(torch.randn(6, 3), torch.randn(6, 1)) for _ in range(3)]
    losses = task_losses(tasks)
    meta.zero_grad()
    torch.stack(losses).mean().backward()
    meta.step()
    print(step, [round(loss.item(), 3) for loss in losses])
