"""Training that loses its way: threads of their own, a custom loss that fails once, and an error nobody catches."""

import threading

import torch
from torch import nn

torch.manual_seed(20)
model = nn.Sequential(nn.Linear(5, 8), nn.Sigmoid(), nn.Linear(8, 1))
turns, lock = threading.Condition(), threading.Lock()
turn = [0]
said = []


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        if x.abs().max() > 50:
            raise ValueError("the loss exploded")
        return grad * (x.abs() <= ctx.bound), None


def worker(number, rounds):
    """Workers take turns, so that every run gives the same result."""
    generator = torch.Generator().manual_seed(number)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(rounds):
        x = torch.randn(6, 5, generator=generator)
        with turns:
            turns.wait_for(lambda: turn[0] % 3 == number)
            optimizer.zero_grad()
            loss = Clipped.apply(model(x) - x.sum(1, keepdim=True), 3.0).pow(2).mean()
            loss.backward()
            optimizer.step()
            said.append((number, loss.item()))
            turn[0] += 1
            turns.notify_all()


workers = [threading.Thread(target=worker, args=(number, 3)) for number in range(3)]
for one in workers:
    one.start()
for one in workers:
    one.join()
for line in said:
    print(*line)

x = torch.full((2, 5), 100.0)
try:
    Clipped.apply(model(x) - x.sum(1, keepdim=True), 3.0).sum().backward()
except ValueError as error:
    print("caught", error)

hidden = torch.zeros(1, 1)
for step in range(3):
    hidden = torch.tanh(model(torch.randn(1, 5)) + hidden)
    hidden.sum().backward()
print("never reached")
