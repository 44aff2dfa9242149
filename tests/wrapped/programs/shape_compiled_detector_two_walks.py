import torch
import torch.nn.functional as F
from torch import nn


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(10, 16)
        self.boxes, self.classes = nn.Linear(16, 4), nn.Linear(16, 3)

    def forward(self, x):
        h = torch.relu(self.trunk(x))
        return {"boxes": self.boxes(h), "classes": self.classes(h)}


torch.manual_seed(0)
model = torch.compile(Detector(), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    x, box, label = torch.randn(5, 10), torch.rand(5, 4), torch.randint(0, 3, (5,))
    found = model(x)
    optimizer.zero_grad()
    F.smooth_l1_loss(found["boxes"], box).backward()
    F.cross_entropy(found["classes"], label).backward()  # TAPE603
    optimizer.step()
