import torch
import torch.nn.functional as F
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 16)
        self.actor = nn.Linear(16, 2)
        self.critic = nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.trunk(x))
        return self.actor(h), self.critic(h)


@torch.compile(backend="aot_eager", fullgraph=True)
def forward(model, x):
    return model(x)


model = ActorCritic()
actor_optimizer = torch.optim.Adam([*model.trunk.parameters(), *model.actor.parameters()], lr=1e-3)
critic_optimizer = torch.optim.Adam(model.critic.parameters(), lr=1e-3)
for step in range(2):
    x = torch.randn(6, 4)
    target = torch.randn(6, 1)
    logits, value = forward(model, x)
    advantage = (target - value).detach()
    actor_loss = -(logits.log_softmax(-1)[:, :1] * advantage).mean()
    critic_loss = F.mse_loss(value, target)
    actor_optimizer.zero_grad()
    critic_optimizer.zero_grad()
    actor_loss.backward()
    critic_loss.backward()  # TAPE603
    actor_optimizer.step()
    critic_optimizer.step()
