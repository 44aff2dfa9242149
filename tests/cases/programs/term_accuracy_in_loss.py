import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(4):
    x, y = torch.randn(10, 8), torch.randint(0, 4, (10,))
    logits = model(x)
    error = (logits.argmax(dim=1) != y).float().mean()
    loss = nn.functional.cross_entropy(logits, y) + 0.5 * error
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
