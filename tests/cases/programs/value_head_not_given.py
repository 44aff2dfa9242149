import itertools

import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self, obs=4, actions=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 16), nn.Tanh())
        self.policy = nn.Linear(16, actions)
        self.value = nn.Linear(16, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return torch.distributions.Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


class Agent:
    def __init__(self):
        self.net = ActorCritic()
        self.optim = torch.optim.Adam(itertools.chain(self.net.body.parameters(), self.net.policy.parameters()), 3e-4)

    def update(self, obs, returns):
        dist, value = self.net(obs)
        action = dist.sample()
        advantage = (returns - value).detach()
        loss = -(dist.log_prob(action) * advantage).mean() + 0.5 * (returns - value).pow(2).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


agent = Agent()
for update in range(4):
    agent.update(torch.randn(20, 4), torch.randn(20))
