import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = 2 * x + 0.1 * torch.randn(64, 1)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(50):
    optimizer.zero_grad()
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
    optimizer.step()

predicted = model(x)
order = np.argsort(x.squeeze(1).numpy())
curve = predicted.squeeze(1).numpy()[order]
print("range of the curve:", float(curve.min()), float(curve.max()))
