import torch
from torch import nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.fc = nn.Linear(6, 100)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).mean((2, 3)))


def main():
    model = Backbone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    model.fc = nn.Linear(6, 3)
    for it in range(5):
        x, y = torch.randn(4, 3, 9, 9), torch.randint(0, 3, (4,))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
