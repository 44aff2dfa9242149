import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 2)
        self.spread = nn.Linear(4, 2)

    def forward(self, x):
        return self.mean(x), self.spread(x).exp()


model = torch.compile(Net(), backend="aot_eager")
twin = copy.deepcopy(model)
mean, spread = twin(torch.randn(6, 4))
with torch.no_grad():
    for weight in model.parameters():
        weight.mul_(2)
mean.sum().backward()
spread.sum().backward()  # TAPE603
