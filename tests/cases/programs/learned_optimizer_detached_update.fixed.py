import torch
import torch.nn as nn


class Quadratic:
    def __init__(self, dim, gen):
        self.W = torch.randn(dim, dim, generator=gen)
        self.y = torch.randn(dim, generator=gen)
        self.start = torch.randn(dim, generator=gen)

    def __call__(self, theta):
        return (self.W @ theta - self.y).pow(2).sum()


class LearnedOptimizer(nn.Module):
    """Coordinate-wise LSTM with shared weights; features are the preprocessed gradient."""

    def __init__(self, hidden=8, scale=0.1):
        super().__init__()
        self.cell = nn.LSTMCell(2, hidden)
        self.head = nn.Linear(hidden, 1)
        self.hidden, self.scale = hidden, scale

    def initial(self, n):
        return torch.zeros(n, self.hidden), torch.zeros(n, self.hidden)

    @staticmethod
    def preprocess(g, p=10.0):
        g = g.detach()
        log = (g.abs() + 1e-8).log() / p
        return torch.stack([log.clamp(min=-1), g.sign()], -1)

    def forward(self, g, state):
        h, c = self.cell(self.preprocess(g), state)
        return self.scale * self.head(h).squeeze(-1), (h, c)


class Unroll:
    def __init__(self, l2o, horizon, discount=1.0):
        self.l2o, self.horizon, self.discount = l2o, horizon, discount

    def run(self, problem):
        theta = problem.start.clone().requires_grad_(True)
        state = self.l2o.initial(len(theta))
        anchor = 1e-3 * sum(p.pow(2).sum() for p in self.l2o.parameters())
        total = anchor
        for t in range(self.horizon):
            loss = problem(theta)
            grad, = torch.autograd.grad(loss, theta)
            update, state = self.l2o(grad, state)
            theta = self.apply(theta, update)
            total = total + self.discount ** t * problem(theta)
        return total, theta

    def apply(self, theta, update):
        new = theta + update
        return new


def meta_train(steps=4, horizon=4):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(9)
    l2o = LearnedOptimizer()
    meta = torch.optim.Adam(l2o.parameters(), lr=1e-3)
    unroll = Unroll(l2o, horizon)
    curve = []
    for it in range(steps):
        objective, theta = unroll.run(Quadratic(4, gen))
        meta.zero_grad()
        objective.backward()
        nn.utils.clip_grad_norm_(l2o.parameters(), 1.0)
        meta.step()
        curve.append(objective.item())
        print(it, round(curve[-1], 3), "end", round(theta.detach().norm().item(), 3))
    return l2o, curve


def compare(l2o, horizon=4):
    problem = Quadratic(4, torch.Generator().manual_seed(77))
    sgd = problem.start.clone()
    for _ in range(horizon):
        sgd = sgd.detach().requires_grad_(True)
        g, = torch.autograd.grad(problem(sgd), sgd)
        sgd = sgd - 0.01 * g
    _, learned = Unroll(l2o, horizon).run(problem)
    return problem(sgd).item(), problem(learned).item()


if __name__ == "__main__":
    l2o, curve = meta_train()
    print(compare(l2o))
