import argparse

import torch
import torch.nn.functional as F
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self, classes, width):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, width))

    def forward(self, features, labels):
        return (features - self.centers[labels]).pow(2).sum(1).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.classify = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        features = self.features(x)
        return features, self.classify(features)


def main(args):
    net, center_loss = Net(), CenterLoss(3, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr)
    for step in range(5):
        x, y = torch.randn(12, 6), torch.randint(0, 3, (12,))
        features, logits = net(x)
        loss = F.cross_entropy(logits, y) + args.weight * center_loss(features, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--weight", type=float, default=0.01)
main(parser.parse_args())
