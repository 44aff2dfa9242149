import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 6))
for parameter in encoder.parameters():
    parameter.requires_grad = False
encoder.eval()
batches = [(torch.randn(8, 10), torch.randint(0, 2, (8,))) for _ in range(4)]

features = []
for x, y in batches:
    features.append((encoder(x), y))

probe = nn.Linear(6, 2)
optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
for epoch in range(3):
    for z, y in features:
        loss = nn.functional.cross_entropy(probe(z), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(loss.item())
