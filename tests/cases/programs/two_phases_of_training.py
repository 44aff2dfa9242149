import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 8)
        self.decoder = nn.Linear(8, 6)

    def forward(self, x):
        return self.decoder(torch.relu(self.encoder(x)))


def phase(model, optimizer, steps=3):
    for _ in range(steps):
        x = torch.randn(5, 6)
        loss = (model(x) - x).pow(2).mean()
        model.zero_grad()
        loss.backward()
        optimizer.step()


model = Model()
phase(model, torch.optim.Adam(model.encoder.parameters()))
phase(model, torch.optim.Adam(model.decoder.parameters()))
