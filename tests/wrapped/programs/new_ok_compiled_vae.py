import torch
from torch import nn


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 4)
        self.decode = nn.Linear(2, 6)

    def forward(self, x):
        mean, log_var = self.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum(-1)
        return self.decode(z), kl


torch.manual_seed(0)
model = Vae()
step = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(8, 6)
    out, kl = step(x)
    reconstruction = (out - x).square().sum(-1).mean()
    optimizer.zero_grad()
    reconstruction.backward(retain_graph=True)
    grad_of_reconstruction = model.encode.weight.grad.norm().item()
    kl.mean().backward()
    optimizer.step()
