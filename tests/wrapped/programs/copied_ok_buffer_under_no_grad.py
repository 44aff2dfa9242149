import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        hidden = self.layer(x).tanh()
        with torch.no_grad():
            self.scale.mul_(0.9).add_(hidden.mean(0), alpha=0.1)
        return hidden * self.scale


model = torch.compile(Net(), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    first, second = model(torch.randn(5, 4)), model(torch.randn(5, 4))
    (first.mean() + second.mean()).backward()
    optimizer.step()
