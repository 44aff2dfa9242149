import torch
from torch import nn

scores = nn.Parameter(torch.randn(6))
layer = nn.Linear(6, 2)
optimizer = torch.optim.SGD([scores, *layer.parameters()], lr=0.1)
for step in range(4):
    soft = torch.sigmoid(scores)
    hard = (soft > 0.5).float()
    mask = hard + soft - soft.detach()
    loss = layer(torch.randn(5, 6) * mask).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
