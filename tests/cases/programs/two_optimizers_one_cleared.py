import torch
from torch import nn

actor = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)

for update in range(6):
    obs, returns = torch.randn(32, 4), torch.randn(32, 1)
    dist = torch.distributions.Categorical(logits=actor(obs))
    action = dist.sample()
    value = critic(obs)
    advantage = (returns - value).detach().squeeze(1)
    policy_loss = -(dist.log_prob(action) * advantage).mean()
    actor_opt.zero_grad()
    policy_loss.backward()
    actor_opt.step()

    value_loss = (value - returns).pow(2).mean()
    value_loss.backward()
    critic_opt.step()
