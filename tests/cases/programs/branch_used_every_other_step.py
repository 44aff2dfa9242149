import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.tasks = nn.ModuleDict({"seg": nn.Linear(8, 3), "depth": nn.Linear(8, 1)})

    def forward(self, x, task):
        return self.tasks[task](torch.relu(self.body(x)))


net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(6):
    task = "seg" if step % 2 == 0 else "depth"
    loss = net(torch.randn(5, 4), task).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
