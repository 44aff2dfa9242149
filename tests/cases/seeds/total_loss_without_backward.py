import torch
import torch.nn as nn

model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
criterion = nn.MSELoss()
batches = [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(5)]

model.eval()
total_loss = 0
for inputs, targets in batches:
    loss = criterion(model(inputs), targets)
    total_loss += loss
print(total_loss / len(batches))
