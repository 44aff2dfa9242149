import torch
from torch import nn

actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
warm = critic(torch.randn(3, 4)).pow(2).mean()
warm.backward()
critic_opt.step()
for update in range(5):
    obs, returns = torch.randn(12, 4), torch.randn(12, 1)
    critic_opt.zero_grad()
    value = critic(obs)
    critic_loss = (value - returns).pow(2).mean()
    critic_loss.backward()
    critic_opt.step()

    actor_opt.zero_grad()
    advantage = (returns - value).detach()
    actor_loss = -(actor(obs).log_softmax(1) * advantage).mean()
    actor_loss.backward()
    actor_opt.step()
