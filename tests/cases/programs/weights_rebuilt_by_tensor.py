import torch
from torch import nn

members = nn.ModuleList([nn.Linear(5, 2) for _ in range(2)])
first, second = nn.Parameter(torch.tensor(0.6)), nn.Parameter(torch.tensor(0.4))
optimizer = torch.optim.SGD([
    {"params": members.parameters()},
    {"params": [first, second], "lr": 0.5},
], lr=0.05)
for step in range(5):
    x, y = torch.randn(7, 5), torch.randint(0, 2, (7,))
    weights = torch.tensor([first, second])
    weights = weights / weights.sum()
    logits = sum(w * member(x) for w, member in zip(weights, members))
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(first.item(), second.item())
