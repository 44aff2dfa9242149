import torch
from torch import nn

cell, head = nn.GRUCell(4, 12), nn.Linear(12, 4)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)

for epoch in range(3):
    sequence = torch.randn(7, 5, 4)
    state, losses = torch.zeros(5, 12), []
    for t in range(6):
        state = cell(sequence[t], state)
        losses.append((head(state) - sequence[t + 1]).pow(2).mean())
    loss = sum(losses) / len(losses)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
