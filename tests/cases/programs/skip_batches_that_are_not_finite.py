import math

import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    loss = model(torch.randn(6, 4)).exp().mean()
    loss.backward()
    if not math.isfinite(loss.item()):
        optimizer.zero_grad()
        continue
    optimizer.step()
    optimizer.zero_grad()
