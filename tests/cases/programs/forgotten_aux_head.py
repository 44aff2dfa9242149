import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.main_head = nn.Linear(16, 4)
        self.aux_head = nn.Linear(16, 2)

    def forward(self, x):
        h = self.trunk(x)
        return self.main_head(h), self.aux_head(h)


model = TwoHeads()
optimizer = torch.optim.AdamW([
    {"params": model.trunk.parameters(), "lr": 1e-4},
    {"params": model.main_head.parameters(), "lr": 1e-3},
])
for step in range(4):
    x = torch.randn(12, 8)
    main, aux = model(x)
    loss = nn.functional.cross_entropy(main, torch.randint(0, 4, (12,)))
    loss = loss + 0.3 * nn.functional.cross_entropy(aux, torch.randint(0, 2, (12,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
