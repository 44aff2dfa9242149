import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(6, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device, enabled=False)
for it in range(4):
    x, y = torch.randn(5, 6, device=device), torch.randint(0, 2, (5,), device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x).float(), y)
    scaler.scale(loss).backward()
    model.zero_grad(set_to_none=False)
    scaler.step(optimizer)
    scaler.update()
