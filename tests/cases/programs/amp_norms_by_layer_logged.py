import torch
from torch import nn

model = nn.Sequential(nn.Conv1d(2, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 10, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu")
log = []

for step in range(4):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(torch.randn(5, 2, 12)), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    norms = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            norms[name] = parameter.grad.norm().item()
    log.append(norms)
    scaler.step(optimizer)
    scaler.update()
print(len(log))
