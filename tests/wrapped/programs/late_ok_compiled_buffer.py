import torch
from torch import nn


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("average", torch.ones(4))

    def forward(self, x):
        self.average += x.detach().mean(0)
        return self.layer(x) * self.average


model = torch.compile(Running(), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4)).mean() + model(torch.randn(3, 4)).mean()
    loss.backward()
    optimizer.step()
