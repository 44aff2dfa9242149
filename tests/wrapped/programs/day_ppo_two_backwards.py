import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")


class ActorCritic(nn.Module):
    def __init__(self, obs=4, hidden=16, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh())
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)


class Agent:
    def __init__(self):
        self.net = DDP(ActorCritic())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def update(self, obs, act, ret):
        logits, value = self.net(obs)
        adv = (ret - value).detach()
        value_loss = F.mse_loss(value, ret)
        pi_loss = (F.cross_entropy(logits, act, reduction="none") * adv).mean()
        self.opt.zero_grad()
        (pi_loss + 0 * value.sum()).backward(retain_graph=True)
        (0.5 * value_loss).backward()  # TAPE601
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.opt.step()


torch.manual_seed(dist.get_rank())
agent = Agent()
model = agent.net
for it in range(3):
    agent.update(torch.randn(8, 4), torch.randint(3, (8,)), torch.randn(8))
