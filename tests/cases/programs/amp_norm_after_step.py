import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
scaler = torch.amp.GradScaler("cpu")

for step in range(4):
    loss = model(torch.randn(5, 6)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    total = sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5
    print(step, round(total, 4))
