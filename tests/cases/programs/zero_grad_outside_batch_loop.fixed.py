import torch
from torch import nn


class Regressor:
    def __init__(self, features=5):
        self.net = nn.Sequential(nn.Linear(features, 12), nn.Tanh(), nn.Linear(12, 1))
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.criterion = nn.MSELoss()

    def epoch(self, batches):
        total = 0.0
        for x, y in batches:
            loss = self.criterion(self.net(x), y)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
            total += loss.item()
        return total / len(batches)


batches = [(torch.randn(8, 5), torch.randn(8, 1)) for _ in range(4)]
regressor = Regressor()
for epoch in range(3):
    print(regressor.epoch(batches))
