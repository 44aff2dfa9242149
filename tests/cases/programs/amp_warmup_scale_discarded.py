import torch
from torch import nn

model = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")

for step in range(3):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        probe = model(torch.randn(4, 5)).float().pow(2).mean()
    scaler.scale(probe).backward()
    finite = all(torch.isfinite(p.grad).all() for p in model.parameters())
    optimizer.zero_grad()
    loss = model(torch.randn(4, 5)).pow(2).mean()
    loss.backward()
    if finite:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    scaler.update(1024.0)
