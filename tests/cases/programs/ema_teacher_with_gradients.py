import copy

import torch
from torch import nn

student = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 4))
teacher = copy.deepcopy(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(4):
    x = torch.randn(10, 6)
    loss = nn.functional.mse_loss(student(x), teacher(x + 0.1 * torch.randn_like(x)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.data = 0.99 * slow.data + 0.01 * fast.data
