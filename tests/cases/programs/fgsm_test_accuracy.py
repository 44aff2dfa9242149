import torch
from torch import nn

model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    x, y = torch.randn(16, 8), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
survived = 0
for _ in range(4):
    x, y = torch.randn(16, 8, requires_grad=True), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    attacked = (x + 0.1 * x.grad.sign()).detach()
    survived += int((model(attacked.requires_grad_(True)).argmax(1) == y).sum())
print(survived)
