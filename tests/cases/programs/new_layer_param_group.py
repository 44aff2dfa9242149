import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 100))
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.01)
model[2] = nn.Linear(12, 4)
optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.1})
for step in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 4, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
