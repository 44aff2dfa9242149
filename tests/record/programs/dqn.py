"""Deep Q-learning in a corridor: replay memory, target network moved softly, epsilon that decays, Huber loss."""

import math
import random
from collections import deque, namedtuple

import torch
from torch import nn

random.seed(10)
torch.manual_seed(10)
Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
LENGTH = 7


class Memory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *parts):
        self.memory.append(Transition(*parts))

    def sample(self, count):
        return random.sample(self.memory, count)

    def __len__(self):
        return len(self.memory)


def encode(position):
    return nn.functional.one_hot(torch.tensor([position]), LENGTH).float()


def network():
    return nn.Sequential(nn.Linear(LENGTH, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 2))


policy_net, target_net = network(), network()
target_net.load_state_dict(policy_net.state_dict())
optimizer = torch.optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
memory = Memory(100)
steps_done = 0


def select_action(state):
    global steps_done
    threshold = 0.05 + 0.85 * math.exp(-steps_done / 30)
    steps_done += 1
    if random.random() > threshold:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]])


def optimize():
    if len(memory) < 16:
        return None
    batch = Transition(*zip(*memory.sample(16)))
    unfinished = torch.tensor([state is not None for state in batch.next_state])
    following = torch.cat([state for state in batch.next_state if state is not None])
    values = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    next_values = torch.zeros(16)
    with torch.no_grad():
        next_values[unfinished] = target_net(following).max(1).values
    expected = next_values * 0.9 + torch.cat(batch.reward)
    loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss.item()


for episode in range(6):
    position, last = LENGTH // 2, None
    for _ in range(12):
        state = encode(position)
        action = select_action(state)
        position += 1 if action.item() else -1
        done = position in (0, LENGTH - 1)
        reward = torch.tensor([1.0 if position == LENGTH - 1 else -0.02])
        memory.push(state, action, None if done else encode(position), reward)
        last = optimize()
        weights, targets = policy_net.state_dict(), target_net.state_dict()
        for key in weights:
            targets[key] = weights[key] * 0.05 + targets[key] * 0.95
        target_net.load_state_dict(targets)
        if done:
            break
    print(episode, position, last)
