import torch
from torch import nn

model = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 10))
images, labels = torch.rand(4, 3, 4, 4), torch.randint(0, 10, (4,))
delta = torch.zeros_like(images, requires_grad=True)
optimizer = torch.optim.SGD([delta], lr=0.1)
for step in range(6):
    loss = -nn.functional.cross_entropy(model(images + delta), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        delta.clamp_(-0.03, 0.03)
