import torch
from torch import nn

gen, critic = nn.Linear(4, 3), nn.Linear(3, 1)
gen_opt, critic_opt = torch.optim.Adam(gen.parameters()), torch.optim.Adam(critic.parameters())
for step in range(4):
    with torch.no_grad():
        fake = gen(torch.randn(6, 4))
    critic_loss = critic(fake).mean() - critic(torch.randn(6, 3)).mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    gen_loss = -critic(gen(torch.randn(6, 4))).mean()
    gen_opt.zero_grad()
    gen_loss.backward()
    gen_opt.step()
