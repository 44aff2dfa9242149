import torch
from torch import nn

trunk = nn.Sequential(nn.Linear(5, 10), nn.Tanh())
heads = nn.ModuleDict({"a": nn.Linear(10, 2), "b": nn.Linear(10, 3), "c": nn.Linear(10, 1)})
optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.1)


def train_step(batch):
    for name, head in heads.items():
        optimizer.zero_grad()
        loss = head(trunk(batch[name])).pow(2).mean()
        loss.backward()
    optimizer.step()


for step in range(3):
    train_step({name: torch.randn(4, 5) for name in heads})
