import torch
from torch import nn

body, heads = nn.Linear(5, 8), nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)])
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()])
for step in range(3):
    x = torch.randn(6, 5)
    norms = []
    for head in heads:
        optimizer.zero_grad()
        head(body(x).relu()).pow(2).mean().backward()
        norms.append(sum(p.grad.norm() for p in body.parameters()))
    weights = [n / sum(norms) for n in norms]
    optimizer.zero_grad()
    loss = sum(w * head(body(x).relu()).pow(2).mean() for w, head in zip(weights, heads))
    loss.backward()
    optimizer.step()
