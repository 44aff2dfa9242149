import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, width=6, depth=3):
        super().__init__()
        self.inner = []
        for _ in range(depth):
            self.inner.append(nn.Linear(width, width))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.inner:
            x = torch.relu(layer(x))
        return self.out(x)


net = Stack()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(4):
    loss = net(torch.randn(10, 6)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, float(loss))
