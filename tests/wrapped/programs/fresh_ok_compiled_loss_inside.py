import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


@torch.compile(backend="aot_eager")
def losses(x, y):
    out = net(x)
    return nn.functional.cross_entropy(out, y), 1e-3 * out.square().mean()


for step in range(3):
    x, y = torch.randn(6, 4), torch.randint(3, (6,))
    fit, decay = losses(x, y)
    optimizer.zero_grad()
    torch.autograd.backward([fit, decay])
    optimizer.step()
    again, _ = losses(x, y)
    print(f"{fit.item():.3f} -> {again.item():.3f}")
