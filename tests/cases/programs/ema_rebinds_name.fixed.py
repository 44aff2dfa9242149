import copy

import torch
from torch import nn

student = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)

for step in range(4):
    x = torch.randn(8, 6)
    with torch.no_grad():
        target = teacher(x + 0.1 * torch.randn_like(x))
    loss = nn.functional.mse_loss(student(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, average in zip(student.parameters(), teacher.parameters()):
            average.copy_(0.99 * average + 0.01 * mine)
    print(step, loss.item())
