"""A classifier whose bookkeeping keeps graphs: one small, in training; one with every activation, in validation."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def dataset(size):
    points = torch.randn(size, 20)
    return TensorDataset(points, (points[:, :3].sum(1) > 0).long())


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    train = DataLoader(dataset(512), batch_size=32, shuffle=True)
    validation = DataLoader(dataset(256), batch_size=32)

    for epoch in range(3):
        model.train()
        running_loss = 0
        for points, labels in train:
            optimizer.zero_grad()
            loss = criterion(model(points), labels)
            loss.backward(retain_graph=True)
            optimizer.step()
            running_loss += loss

        model.eval()
        losses = []
        for points, labels in validation:
            losses.append(criterion(model(points), labels))
        mean = torch.stack(losses).mean()
        print(f"epoch {epoch}: train {running_loss / len(train):.3f}, validation {mean:.3f}")


if __name__ == "__main__":
    main()
