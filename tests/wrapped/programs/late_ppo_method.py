import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Policy(nn.Module):
    def __init__(self, observations=5, actions=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(observations, 16), nn.Tanh())
        self.pi = nn.Linear(16, actions)
        self.v = nn.Linear(16, 1)

    def forward(self, x):
        h = self.body(x)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)

    def evaluate_actions(self, x, actions):
        distribution, value = self(x)
        return distribution.log_prob(actions), value, distribution.entropy()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    policy = DDP(Policy())
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    for update in range(2):
        x = torch.randn(12, 5)
        with torch.no_grad():
            distribution, value = policy(x)
            actions = distribution.sample()
            old = distribution.log_prob(actions)
        returns = torch.randn(12)
        advantage = returns - value
        for epoch in range(2):
            log_prob, value, entropy = policy.module.evaluate_actions(x, actions)
            ratio = (log_prob - old).exp()
            surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            loss = -surrogate.mean() + 0.5 * F.mse_loss(value, returns) - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()  # TAPE601
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()


main()
