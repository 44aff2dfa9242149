import torch
from torch import nn

net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
criterion = nn.CrossEntropyLoss()
train_batches = [(torch.rand(16, 1, 8, 8), torch.randint(0, 10, (16,))) for _ in range(6)]
test_batches = [(torch.rand(32, 1, 8, 8), torch.randint(0, 10, (32,))) for _ in range(4)]

for epoch in range(2):
    net.train()
    for images, labels in train_batches:
        optimizer.zero_grad()
        criterion(net(images), labels).backward()
        optimizer.step()
    net.eval()
    correct = total = 0
    with torch.no_grad():
        for images, labels in test_batches:
            predicted = net(images).argmax(dim=1)
            correct += (predicted == labels).sum().item()
            total += labels.size(0)
    print(epoch, correct / total)
