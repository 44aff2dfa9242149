import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
critic = torch.compile(nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 1)), backend="aot_eager")
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
for step in range(3):
    real, fake = torch.randn(8, 6), torch.randn(8, 6)
    mix = torch.lerp(real, fake, torch.rand(8, 1)).requires_grad_()
    slopes, = torch.autograd.grad(critic._orig_mod(mix).sum(), mix, create_graph=True)
    penalty = (slopes.norm(dim=1) - 1).square().mean()
    scores_real, scores_fake = critic(real), critic(fake)
    loss = scores_fake.mean() - scores_real.mean() + 10 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
