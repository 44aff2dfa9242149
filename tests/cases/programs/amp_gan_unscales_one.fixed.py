import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
D = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
g_opt = torch.optim.Adam(G.parameters(), lr=1e-3)
d_opt = torch.optim.Adam(D.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
softplus = nn.functional.softplus

for step in range(5):
    real, fake = torch.randn(8, 6), G(torch.randn(8, 4))
    d_loss = softplus(-D(real)).mean() + softplus(D(fake.detach())).mean()
    d_opt.zero_grad()
    scaler.scale(d_loss).backward()
    scaler.unscale_(d_opt)
    clip_grad_norm_(D.parameters(), 1.0)
    scaler.step(d_opt)

    g_loss = softplus(-D(fake)).mean()
    g_opt.zero_grad()
    scaler.scale(g_loss).backward()
    scaler.unscale_(g_opt)
    clip_grad_norm_(G.parameters(), 1.0)
    scaler.step(g_opt)
    scaler.update()
