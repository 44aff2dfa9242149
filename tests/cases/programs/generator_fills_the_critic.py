import torch
from torch import nn

gen, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 1))
gen_opt = torch.optim.RMSprop(gen.parameters(), lr=1e-4)
critic_opt = torch.optim.RMSprop(critic.parameters(), lr=1e-4)
for step in range(6):
    critic.zero_grad()
    loss = critic(gen(torch.randn(5, 4)).detach()).mean() - critic(torch.randn(5, 2)).mean()
    loss.backward()
    critic_opt.step()
    if step % 2 == 1:
        gen.zero_grad()
        (-critic(gen(torch.randn(5, 4))).mean()).backward()
        gen_opt.step()
