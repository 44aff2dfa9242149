import torch
from torch import nn


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.policy = nn.Linear(16, 2)
        self.value = nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.policy(h).log_softmax(-1), self.value(h.detach()).tanh()


torch.manual_seed(0)
model = torch.compile(ActorCritic(), backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters())
for step in range(2):
    optimizer.zero_grad()
    log_probabilities, value = model(torch.randn(8, 4))
    value_loss = (value - 1).pow(2).mean()
    policy_loss = -(log_probabilities[:, 0]).mean()
    (value_loss + policy_loss).backward()
    optimizer.step()
