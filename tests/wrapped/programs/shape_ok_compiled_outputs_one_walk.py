import torch
import torch.nn.functional as F
from torch import nn


class PolicyValue(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.GRUCell(4, 8)
        self.pi, self.v = nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x, h):
        h = self.body(x, h)
        return self.pi(h), self.v(h).squeeze(-1), h


torch.manual_seed(0)
model = torch.compile(PolicyValue(), backend="aot_eager")
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
h = torch.zeros(5, 8)
for rollout in range(3):
    losses = []
    h = h.detach()
    for t in range(3):
        logits, value, h = model(torch.randn(5, 4), h)
        action = torch.distributions.Categorical(logits=logits).sample()
        advantage = torch.randn(5) - value
        policy = F.cross_entropy(logits, action, reduction="none") * advantage.detach()
        losses.append(policy.mean() + 0.5 * advantage.square().mean())
    optimizer.zero_grad()
    torch.stack(losses).sum().backward()
    optimizer.step()
