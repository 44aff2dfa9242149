import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


@contextlib.contextmanager
def input_gradients(x):
    leaf = x.clone().requires_grad_(True)
    yield leaf


class Explainable(nn.Module):
    def __init__(self, d=10, h=16, k=2):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, h), nn.Linear(h, k)

    def forward(self, x):
        return self.fc2(F.softplus(self.fc1(x), beta=3))


class RRRLoss:
    """Cross entropy, plus a penalty on explanations where the annotation mask says 'irrelevant'."""

    def __init__(self, model, strength=5.0):
        self.model, self.strength = model, strength

    def explanation(self, x, y):
        with input_gradients(x) as leaf:
            log_p = self.model(leaf).log_softmax(-1).sum()
            log_p.backward(create_graph=True)
        return leaf.grad

    def __call__(self, x, y, mask):
        right_answers = F.cross_entropy(self.model(x), y)
        saliency = self.explanation(x, y)
        for p in self.model.parameters():
            p.grad = None
        right_reasons = (mask * saliency).pow(2).sum(-1).mean()
        return right_answers + self.strength * right_reasons, right_reasons


def decoy_data(n=30, d=10):
    x = torch.randn(n, d)
    y = (x[:, 0] > 0).long()
    x[:, -1] = y * 2.0 - 1.0  # a decoy that is only right in training
    mask = torch.zeros(d)
    mask[-1] = 1.0
    return x, y, mask


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(-1) == y).float().mean().item()


class Loop:
    def __init__(self, model, lr=1e-2, bs=6):
        self.model, self.bs = model, bs
        self.criterion = RRRLoss(model)
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def __call__(self, x, y, mask):
        for xb, yb in zip(x.split(self.bs), y.split(self.bs)):
            loss, reasons = self.criterion(xb, yb, mask)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.report(loss.item(), reasons.item())

    @staticmethod
    def report(loss, reasons):
        print(f"loss {loss:.4f} reasons {reasons:.5f}")


def main():
    torch.manual_seed(0)
    x, y, mask = decoy_data()
    model = Explainable()
    Loop(model)(x, y, mask)
    x[:, -1] = -x[:, -1]
    print("accuracy without the decoy", accuracy(model, x, y))


main()
