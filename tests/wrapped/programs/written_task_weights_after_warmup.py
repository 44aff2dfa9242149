import torch
from torch import nn


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
        self.depth = nn.Linear(8, 1)
        self.normal = nn.Linear(8, 3)

    def forward(self, x):
        hidden = self.trunk(x)
        return self.depth(hidden), self.normal(hidden)


def task_norms(losses, weight):
    norms = []
    for loss in losses:
        (gradient,) = torch.autograd.grad(loss, weight, retain_graph=True)  # TAPE611
        norms.append(gradient.norm())
    return norms


torch.manual_seed(0)
net = Shared()
fast = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
weights = [1.0, 1.0]
for step in range(6):
    x = torch.randn(10, 6)
    depth, normal = fast(x)
    losses = [depth.abs().mean(), (normal - x[:, :3]).pow(2).mean()]
    if step >= 3:
        norms = task_norms(losses, net.trunk[2].weight)
        mean = sum(norms) / 2
        weights = [(mean / (norm + 1e-6)).item() for norm in norms]
    optimizer.zero_grad()
    sum(w * loss for w, loss in zip(weights, losses)).backward()
    optimizer.step()
