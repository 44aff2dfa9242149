import torch
from torch import nn


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.classes = nn.Linear(8, 3)
        self.match = nn.Linear(8, 6)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.classes(h), self.match(h)


student = torch.compile(Student(), backend="aot_eager")
optimizer = torch.optim.SGD(student.parameters(), 0.1)
for step in range(2):
    x = torch.randn(5, 6)
    logits, matched = student(x)
    task = nn.functional.cross_entropy(logits, torch.randint(0, 3, (5,)))
    distance = nn.functional.mse_loss(matched, x)
    optimizer.zero_grad()
    task.backward(retain_graph=False)
    distance.backward()  # TAPE603
    optimizer.step()
