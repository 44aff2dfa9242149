import torch
from torch import nn
import torch.nn.functional as F


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(8, 4), nn.Linear(6, 4)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        a, b = F.normalize(self.left(a), dim=1), F.normalize(self.right(b), dim=1)
        scale = self.log_scale.exp()
        return scale * a @ b.t()


model = Contrastive()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    logits = model(torch.randn(5, 8), torch.randn(5, 6))
    labels = torch.arange(5)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
