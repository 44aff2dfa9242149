import torch
from torch import nn

ACCUMULATE = 3
net = nn.Sequential(nn.Linear(7, 20), nn.GELU(), nn.Linear(20, 2))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler(device="cpu", growth_interval=100)

for i in range(9):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(net(torch.randn(6, 7)), torch.randint(0, 2, (6,))) / ACCUMULATE
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    if (i + 1) % ACCUMULATE == 0:
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
