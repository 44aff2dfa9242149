import torch
from torch import nn

generator = torch.compile(nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)), backend="aot_eager")
critic = torch.compile(nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)), backend="aot_eager")
for step in range(2):
    fake = generator(torch.randn(4, 1))
    critic(fake.detach()).mean().backward()
    critic(fake).mean().backward()
