import torch
import torch.nn.functional as F
from torch import nn


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 12), nn.Linear(12, 12), nn.Linear(12, 1)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.silu(layer(x))
        return self.layers[-1](x)


def r1(critic, real):
    real = real.detach().requires_grad_()
    slopes = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return 0.5 * slopes[0].flatten(1).square().sum(1).mean()


torch.manual_seed(0)
critic = Critic()
fast = torch.compile(critic, backend="aot_eager")
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(4):
    real, fake = torch.randn(8, 6), torch.randn(8, 6)
    loss = F.softplus(-fast(real)).mean() + F.softplus(fast(fake)).mean()
    if step % 2 == 1:
        loss = loss + r1(fast, real)
    optimizer.zero_grad()
    loss.backward()  # TAPE604
    optimizer.step()
