import torch
from torch import nn

torch.manual_seed(0)
generator = torch.compile(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), backend="aot_eager")
critic = torch.compile(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)), backend="aot_eager")
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(critic.parameters())
for step in range(2):
    fake = generator(torch.randn(4, 2))
    d_optimizer.zero_grad()
    (critic(fake.detach()).mean() - critic(torch.randn(4, 2)).mean()).backward()
    d_optimizer.step()
    g_optimizer.zero_grad()
    (-critic(fake).mean()).backward()
    g_optimizer.step()
