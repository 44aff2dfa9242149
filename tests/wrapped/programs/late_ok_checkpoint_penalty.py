import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(2, 8), nn.Tanh())
        self.second = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        x = checkpoint(self.first, x, use_reentrant=False)
        x = checkpoint(self.second, x, use_reentrant=False)
        return self.out(x)


critic = Critic()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
for i in range(2):
    x = torch.randn(6, 2, requires_grad=True)
    score = critic(x)
    (gradient,) = torch.autograd.grad(score.sum(), x, create_graph=True)
    loss = score.mean() + 10 * (gradient.norm(dim=1) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
