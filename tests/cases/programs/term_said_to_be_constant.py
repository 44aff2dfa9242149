import torch
from torch import nn

model = nn.Linear(5, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    logits = model(torch.randn(7, 5))
    fit = nn.functional.cross_entropy(logits, torch.randint(0, 3, (7,)))
    size = model.weight.pow(2).sum()
    loss = fit + 0.1 * size.detach()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
