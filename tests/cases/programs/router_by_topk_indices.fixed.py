import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, dim=6, experts=4):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])

    def forward(self, x):
        score, chosen = self.gate(x).softmax(-1).topk(1, dim=-1)
        stacked = torch.stack([expert(x) for expert in self.experts], dim=1)
        return stacked.gather(1, chosen.unsqueeze(-1).expand(-1, -1, x.size(1))).squeeze(1) * score


router = Router()
optimizer = torch.optim.Adam(router.parameters())
for step in range(4):
    x = torch.randn(16, 6)
    loss = (router(x) - x.flip(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
