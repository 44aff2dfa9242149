import torch
from torch import nn
import torch.nn.functional as F


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.pi = nn.Linear(16, 2)
        self.v = nn.Linear(16, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h.detach()).squeeze(-1)


agent = Agent()


@torch.compile(backend="aot_eager")
def losses(obs, action, ret):
    logits, value = agent(obs)
    policy = F.cross_entropy(logits, action, reduction="none")
    return (policy * (ret - value.detach())).mean(), F.mse_loss(value, ret)


opt = torch.optim.RMSprop(agent.parameters(), lr=1e-3)
for _ in range(3):
    pl, vl = losses(torch.randn(6, 4), torch.randint(0, 2, (6,)), torch.randn(6))
    opt.zero_grad()
    pl.backward()
    vl.backward()  # TAPE603
    opt.step()
