import torch
from torch import nn

LATENT = 8
generator = nn.Sequential(nn.Linear(LATENT, 32), nn.ReLU(), nn.Linear(32, 36), nn.Tanh())
critic = nn.Sequential(nn.Linear(36, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
softplus = nn.functional.softplus

for step in range(4):
    real = torch.rand(10, 36) * 2 - 1
    fake = generator(torch.randn(10, LATENT))
    c_loss = softplus(-critic(real)).mean() + softplus(critic(fake.detach())).mean()
    c_opt.zero_grad()
    c_loss.backward()
    c_opt.step()
    g_loss = softplus(-critic(fake)).mean()
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()

generator.eval()
sheets = []
with torch.no_grad():
    for sheet in range(5):
        noise = torch.randn(25, LATENT)
        images = (generator(noise) + 1) / 2
        sheets.append(images.detach().view(25, 6, 6).clamp(0, 1).numpy())
print(len(sheets), sheets[0].mean() > 0)
