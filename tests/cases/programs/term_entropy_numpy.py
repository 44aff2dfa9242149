import numpy
import torch
from torch import nn

policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

for step in range(4):
    states, returns = torch.randn(10, 3), torch.randn(10)
    log_probs = policy(states).log_softmax(-1)
    taken = log_probs.exp().multinomial(1)
    gain = (log_probs.gather(1, taken).squeeze(1) * returns).mean()
    p = log_probs.exp().detach().numpy()
    entropy = float(-(p * numpy.log(p)).sum(1).mean())
    loss = -gain - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
