import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 2, bias=False), nn.Linear(2, width, bias=False)

    def forward(self, x):
        return torch.relu(self.base(x) + self.up(self.down(x)))


class Model(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.embed = nn.Embedding(20, width).requires_grad_(False)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.score = nn.Linear(width, 2)

    def forward(self, tokens):
        h = self.embed(tokens)
        for block in self.blocks:
            h = checkpoint(block, h, use_reentrant=True)
        return self.score(h.mean(1))


model = Model()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step in range(3):
    loss = nn.functional.cross_entropy(model(torch.randint(0, 20, (4, 5))), torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
