import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    logits = model(torch.randn(6, 4))
    loss = nn.functional.cross_entropy(logits, torch.randint(0, 2, (6,)))
    with torch.no_grad():
        norm = model.weight.norm()
    print((loss + norm).item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
