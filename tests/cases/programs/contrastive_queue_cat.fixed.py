import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, d=6, z=4):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 12), nn.ReLU(), nn.Linear(12, z))

    def forward(self, x):
        return F.normalize(self.f(x), dim=-1)


class Queue:
    def __init__(self, dim, size):
        self.size = size
        self.bank = F.normalize(torch.randn(size, dim), dim=-1)

    def push(self, keys):
        self.bank = torch.cat([self.bank, keys])[-self.size:]

    @property
    def negatives(self):
        return self.bank.detach().t()


class MoCo:
    def __init__(self, queue_size=400, m=0.95, temperature=0.2):
        self.encoder_q = Encoder()
        self.encoder_k = copy.deepcopy(self.encoder_q)
        self.queue = Queue(4, queue_size)
        self.m, self.t = m, temperature
        self.opt = torch.optim.SGD(self.encoder_q.parameters(), lr=0.05, momentum=0.9)

    @torch.no_grad()
    def momentum_update(self):
        for k, q in zip(self.encoder_k.parameters(), self.encoder_q.parameters()):
            k.mul_(self.m).add_(q, alpha=1 - self.m)

    def info_nce(self, q, k):
        pos = (q * k).sum(-1, keepdim=True)
        neg = q @ self.queue.negatives
        logits = torch.cat([pos, neg], 1) / self.t
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))

    def step(self, view1, view2):
        self.momentum_update()
        q = self.encoder_q(view1)
        k = self.encoder_k(view2)
        loss = self.info_nce(q, k.detach())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.queue.push(k.detach())
        return loss.item()


class TwoViews:
    def __init__(self, n, bs, d=6, noise=0.2):
        self.x, self.bs, self.noise = torch.randn(n, d), bs, noise

    def __iter__(self):
        for chunk in self.x[torch.randperm(len(self.x))].split(self.bs):
            yield tuple(chunk + self.noise * torch.randn_like(chunk) for _ in range(2))


def alignment(model, data):
    with torch.no_grad():
        a, b = next(iter(data))
        return (model.encoder_q(a) * model.encoder_q(b)).sum(-1).mean().item()


def adjust_lr(opt, epoch, epochs, base):
    for g in opt.param_groups:
        g["lr"] = base * 0.5 * (1 + math.cos(math.pi * epoch / epochs))


if __name__ == "__main__":
    torch.manual_seed(0)
    data, model = TwoViews(48, 8), MoCo()
    for epoch in range(2):
        adjust_lr(model.opt, epoch, 2, 0.05)
        for views in data:
            value = model.step(*views)
            print(epoch, round(value, 4))
    print("alignment", round(alignment(model, data), 4))
