import torch
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
        self.decode = nn.Sequential(nn.Linear(2, 12), nn.ReLU(), nn.Linear(12, 6))

    def forward(self, x, noise):
        mean, spread = self.encode(x).chunk(2, dim=1)
        return self.decode(mean + noise * (spread / 2).exp()), mean, spread


torch.manual_seed(0)
vae = VAE()
fast = torch.compile(vae, backend="aot_eager")
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
log = []
for step in range(4):
    x = torch.randn(7, 6)
    rebuilt, mean, spread = fast(x, torch.randn(7, 2))
    rebuild = (rebuilt - x).pow(2).mean()
    divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).mean()
    norms = [
        torch.autograd.grad(term, vae.encode[0].weight, retain_graph=True)[0].norm().item()
        for term in (rebuild, divergence)
    ]
    log.append(norms)
    optimizer.zero_grad()
    (rebuild + 0.1 * divergence).backward()
    optimizer.step()
