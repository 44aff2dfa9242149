import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(4):
    x, y = torch.randn(10, 8), torch.randint(0, 4, (10,))
    logits = model(x)
    error = 1 - logits.softmax(dim=1).gather(1, y[:, None]).mean()
    loss = nn.functional.cross_entropy(logits, y) + 0.5 * error
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
