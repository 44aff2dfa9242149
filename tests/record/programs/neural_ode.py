"""A neural ODE trained by the adjoint method: a custom Function that runs its own backward inside backward."""

import torch
from torch import nn

torch.manual_seed(16)


def rk4(f, y, t0, t1, steps):
    h = (t1 - t0) / steps
    t = t0
    for _ in range(steps):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t = t + h
    return y


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, steps, *params):
        ctx.func, ctx.steps = func, steps
        with torch.no_grad():
            y1 = rk4(func, y0, 0.0, 1.0, steps)
        ctx.save_for_backward(y1, *params)
        return y1

    @staticmethod
    def backward(ctx, grad_y1):
        y1, *params = ctx.saved_tensors
        func, steps = ctx.func, ctx.steps
        h = -1.0 / steps
        y, a = y1, grad_y1
        grads = [torch.zeros_like(p) for p in params]
        t = 1.0
        for _ in range(steps):
            with torch.enable_grad():
                point = y.detach().requires_grad_(True)
                value = func(t, point)
                da, *dp = torch.autograd.grad(value, [point, *params], a, allow_unused=True)
            y = (point + h * value).detach()
            a = a - h * da
            grads = [g - h * d if d is not None else g for g, d in zip(grads, dp)]
            t += h
        return None, a, None, *grads


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2))

    def forward(self, t, y):
        return self.net(y**3)


field = Field()
optimizer = torch.optim.RMSprop(field.parameters(), lr=5e-3)
turn = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
for step in range(5):
    start = torch.randn(8, 2)
    wanted = start @ torch.linalg.matrix_exp(turn)
    reached = Adjoint.apply(field, start, 8, *field.parameters())
    loss = (reached - wanted).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
