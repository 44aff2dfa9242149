import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
for step in range(4):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = model(torch.randn(6, 4, device=device)).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
