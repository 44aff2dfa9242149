import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 10), nn.ReLU())
        self.head = nn.Linear(10, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


model = Classifier()
model.backbone.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    loss = nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(0, 2, (5,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
