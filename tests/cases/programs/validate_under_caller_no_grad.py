import torch
from torch import nn

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters())


def evaluate(batches):
    model.eval()
    correct = 0
    for x, y in batches:
        correct += (model(x).argmax(1) == y).sum().item()
    return correct


batches = [(torch.randn(8, 10), torch.randint(0, 3, (8,))) for _ in range(4)]
for epoch in range(2):
    model.train()
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        print(evaluate(batches))
