"""An actor-critic agent on a pole that falls: whole episodes kept, returns worked out backwards, one update each."""

import math
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

torch.manual_seed(9)
SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Pole:
    """A pole on a cart, stepped by Euler's rule."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(11)

    def reset(self):
        self.state = (torch.rand(4, generator=self.generator) - 0.5).mul_(0.1).tolist()
        self.time = 0
        return torch.tensor(self.state)

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action else -10.0
        push = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        turn = (9.8 * math.sin(angle) - math.cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1))
        move = push - 0.05 * turn * math.cos(angle) / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * move, angle + 0.02 * spin, spin + 0.02 * turn]
        self.time += 1
        over = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095 or self.time >= 60
        return torch.tensor(self.state), 1.0, over


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 32)
        self.drop = nn.Dropout(p=0.2)
        self.action_head = nn.Linear(32, 2)
        self.value_head = nn.Linear(32, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.drop(self.body(x)))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
optimizer = optim.Adam(model.parameters(), lr=3e-2)
pole = Pole()


def select_action(state):
    probs, value = model(state)
    choice = Categorical(probs)
    action = choice.sample()
    model.saved_actions.append(SavedAction(choice.log_prob(action), value))
    return action.item()


def finish_episode(gamma=0.99):
    total = 0.0
    policy_losses, value_losses, returns = [], [], []
    for reward in model.rewards[::-1]:
        total = reward + gamma * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    for (log_prob, value), wanted in zip(model.saved_actions, returns):
        advantage = wanted - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([wanted])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


running = 10.0
for episode in range(6):
    state, reward_sum = pole.reset(), 0.0
    while True:
        state, reward, done = pole.step(select_action(state))
        model.rewards.append(reward)
        reward_sum += reward
        if done:
            break
    running = 0.05 * reward_sum + 0.95 * running
    print(episode, reward_sum, repr(finish_episode()), repr(running))
