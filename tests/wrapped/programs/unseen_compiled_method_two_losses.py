import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.q2 = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, s):
        return self.q1(s), self.q2(s)


agent = Agent()
compiled = torch.compile(agent, backend="aot_eager", fullgraph=True)
opt1 = torch.optim.Adam(agent.q1.parameters())
opt2 = torch.optim.Adam(agent.q2.parameters())
for _ in range(2):
    a, b = compiled(torch.randn(5, 4))
    opt1.zero_grad()
    opt2.zero_grad()
    (a - 1).square().mean().backward()
    (b - 1).square().mean().backward()  # TAPE603
    opt1.step()
    opt2.step()
