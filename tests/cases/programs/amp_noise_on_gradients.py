import torch
from torch import nn

SIGMA = 0.01
model = nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for step in range(5):
    x = torch.randn(12, 10)
    loss = (model(x).squeeze(1) - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    for parameter in model.parameters():
        parameter.grad.add_(SIGMA * torch.randn_like(parameter))
    scaler.step(optimizer)
    scaler.update()
