import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
scaler = torch.amp.GradScaler("cpu")
skipped = 0

for step in range(5):
    loss = model(torch.randn(6, 4)).exp().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    for parameter in model.parameters():
        if parameter.grad is None or not torch.isfinite(parameter.grad).all():
            skipped += 1
    scaler.step(optimizer)
    scaler.update()
print(skipped)
