import torch
from torch import nn
import torch.nn.functional as F

teacher = nn.Linear(6, 4).requires_grad_(False)
student = nn.Linear(6, 4)
optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)


def train_step(x):
    student.zero_grad()
    with torch.no_grad():
        target = F.softmax(teacher(x), dim=1)
    loss = F.kl_div(F.log_softmax(student(x), dim=1), target, reduction="batchmean")
    loss.backward()
    optimizer.step()
    return loss.item()


for step in range(5):
    print(train_step(torch.randn(16, 6)))
