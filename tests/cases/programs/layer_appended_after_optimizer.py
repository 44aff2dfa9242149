import torch
from torch import nn


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4)])
        self.head = nn.Linear(4, 1)

    def grow(self):
        self.blocks.append(nn.Linear(4, 4))

    def forward(self, x):
        for block in self.blocks:
            x = torch.sigmoid(block(x))
        return self.head(x)


model = Growing()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.grow()
for epoch in range(4):
    optimizer.zero_grad()
    loss = model(torch.randn(6, 4)).abs().mean()
    loss.backward()
    optimizer.step()
