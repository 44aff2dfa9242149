import torch
from torch import nn


def count(root):
    seen, stack = set(), [root]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        stack.extend(parent for parent, _ in node.next_functions)
    return len(seen)


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(4, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for width in range(1, 4):
    out = model(torch.randn(width, 4))
    print(width, count(out.grad_fn))
