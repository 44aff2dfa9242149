import torch
from torch import nn

gate = nn.Linear(5, 3)
experts = nn.ModuleList([nn.Linear(5, 5) for _ in range(3)])
optimizer = torch.optim.Adam([*gate.parameters(), *experts.parameters()])
for step in range(4):
    x = torch.randn(8, 5)
    scores, chosen = gate(x).softmax(-1).topk(2, dim=-1)
    outputs = torch.stack([expert(x) for expert in experts], dim=1)
    picked = outputs.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 5))
    loss = ((picked * scores.unsqueeze(-1)).sum(1) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
