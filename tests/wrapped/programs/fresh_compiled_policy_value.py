import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.actor, self.critic = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, state):
        h = torch.tanh(self.body(state))
        return self.actor(h).log_softmax(-1), self.critic(h)


class Agent:
    def __init__(self, backend="aot_eager"):
        self.net = torch.compile(ActorCritic(), backend=backend)
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=1e-3)

    def update(self, states, returns):
        log_probs, values = self.net(states)
        advantage = returns - values.squeeze(-1)
        policy_loss = -(log_probs[:, 0] * advantage.detach()).mean()
        value_loss = advantage.pow(2).mean()
        self.optimizer.zero_grad()
        policy_loss.backward()
        value_loss.backward()  # TAPE603
        self.optimizer.step()


agent = Agent()
for episode in range(3):
    agent.update(torch.randn(6, 4), torch.randn(6))
