import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--accumulate", type=int, default=3)
args = parser.parse_args()
model = nn.Linear(6, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(9):
    if i % args.accumulate == 0:
        optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 2, (4,)))
    (loss / args.accumulate).backward()
    if (i + 1) % args.accumulate == 0:
        optimizer.step()
