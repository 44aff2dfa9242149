import torch
from torch import nn

actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
actor_opt = torch.optim.Adam(actor.parameters())
critic_opt = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(4):
    states, returns = torch.randn(8, 4), torch.randn(8)
    values = critic(states).squeeze(1)
    log_probs = actor(states).log_softmax(1)[:, 0]
    policy_loss = -(log_probs * (returns - values.detach())).mean()
    value_loss = (values - returns).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss
    actor_opt.zero_grad()
    critic_opt.zero_grad()
    loss.backward()
    actor_opt.step()
    critic_opt.step()
