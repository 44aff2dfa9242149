import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(5, 16)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(3))
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.out(x)


model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    loss = model(torch.randn(8, 5)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
