import torch
from torch import nn

lstm, out = nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 1)
parameters = [*lstm.parameters(), *out.parameters()]
optimizer = torch.optim.Adam(parameters)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for epoch in range(2):
    for _ in range(3):
        optimizer.zero_grad()
        states, _ = lstm(torch.randn(3, 5, 4))
        loss = out(states[:, -1]).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
