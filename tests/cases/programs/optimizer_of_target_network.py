import copy
import random

import torch
from torch import nn

q_net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
target_net = copy.deepcopy(q_net)
optimizer = torch.optim.Adam(target_net.parameters(), lr=1e-3)
memory = [(torch.randn(4), random.randrange(2), 1.0, torch.randn(4)) for _ in range(32)]
for step in range(5):
    states, actions, rewards, following = zip(*random.sample(memory, 8))
    q = q_net(torch.stack(states)).gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = target_net(torch.stack(following)).max(1).values
    loss = nn.functional.smooth_l1_loss(q, torch.tensor(rewards) + 0.9 * best)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
