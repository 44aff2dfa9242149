import torch
from torch import nn


class Track:
    """A walk on a line: the goal is to the right."""

    def reset(self):
        self.at, self.steps = 0.0, 0
        return torch.tensor([self.at, 0.0])

    def step(self, action):
        self.at += 0.5 if action == 1 else -0.5
        self.steps += 1
        return torch.tensor([self.at, self.steps / 6]), self.at, self.steps >= 6


policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)


def episode(env):
    state, done, log_probs, rewards = env.reset(), False, [], []
    while not done:
        choice = torch.distributions.Categorical(logits=policy(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        state, reward, done = env.step(action.item())
        rewards.append(reward)
    return torch.stack(log_probs), sum(rewards)


def trial(env):
    state, done, score = env.reset(), False, 0.0
    with torch.no_grad():
        while not done:
            scores = policy(state)
            state, reward, done = env.step(int(scores.argmax()))
            score += reward
    return score


env = Track()
for update in range(3):
    log_probs, total = episode(env)
    loss = -(log_probs * total).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(update, trial(env))
