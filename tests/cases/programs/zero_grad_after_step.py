import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
loss_fn = nn.SmoothL1Loss()


def fit(batches):
    for x, y in batches:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


fit([(torch.randn(5, 4), torch.randn(5, 1)) for _ in range(5)])
