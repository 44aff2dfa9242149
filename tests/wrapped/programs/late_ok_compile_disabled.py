import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args([])
net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2))
model = torch.compile(net, disable=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    out = model(torch.randn(4, 3))
    optimizer.zero_grad()
    out[:, 0].sum().backward(retain_graph=True)
    out[:, 1].sum().backward()
    optimizer.step()
