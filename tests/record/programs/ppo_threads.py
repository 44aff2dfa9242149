"""Proximal policy optimisation; worker threads play episodes with copies of the policy and add up their gradients."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

torch.manual_seed(12)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.mean, self.value = nn.Linear(16, 1), nn.Linear(16, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        hidden = self.shared(x)
        return torch.distributions.Normal(self.mean(hidden), self.log_std.exp()), self.value(hidden).squeeze(-1)


def rollout(policy, seed, length=10):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(3, generator=generator)
    states, actions, logs, rewards = [], [], [], []
    for _ in range(length):
        with torch.no_grad():
            dist, _ = policy(x)
            action = dist.mean + dist.stddev * torch.randn(1, generator=generator)
        states.append(x)
        actions.append(action)
        logs.append(dist.log_prob(action))
        x = torch.stack([x[1], x[2], (0.9 * x[0] + action.squeeze()).clamp(-2, 2)])
        rewards.append(-x.pow(2).sum())
    returns, total = [], torch.zeros(())
    for reward in reversed(rewards):
        total = reward + 0.95 * total
        returns.append(total)
    return torch.stack(states), torch.stack(actions), torch.cat(logs), torch.stack(returns[::-1])


def gradients(policy, batch):
    """The gradients of one worker's copy of the policy."""
    mine = copy.deepcopy(policy)
    states, actions, old, returns = batch
    dist, values = mine(states)
    advantage = returns - values.detach()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)
    ratio = (dist.log_prob(actions).squeeze(-1) - old).exp()
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    loss = -surrogate.mean() + 0.01 * (values - returns).pow(2).mean() - 0.001 * dist.entropy().mean()
    loss.backward()
    return [p.grad for p in mine.parameters()], loss.item(), threading.get_ident() != threading.main_thread().ident


policy = ActorCritic()
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
with ThreadPoolExecutor(max_workers=3) as pool:
    for update in range(4):
        batches = list(pool.map(lambda seed: rollout(policy, seed), range(3 * update, 3 * update + 3)))
        for epoch in range(2):
            results = list(pool.map(lambda batch: gradients(policy, batch), batches))
            optimizer.zero_grad()
            for index, p in enumerate(policy.parameters()):
                p.grad = torch.stack([result[0][index] for result in results]).mean(0)
            optimizer.step()
        print(update, [result[1] for result in results], all(result[2] for result in results))
