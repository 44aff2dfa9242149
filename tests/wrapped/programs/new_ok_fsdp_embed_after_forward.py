import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Tower(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.stem = nn.Linear(6, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, 4)

    def embed(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, x):
        return self.out(self.embed(x))


dist.init_process_group("gloo")
model = Tower()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for block in model.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(4):
    x = torch.randn(5, 6)
    logits = model(x)
    loss = F.cross_entropy(logits, torch.randint(0, 4, (5,)))
    if step % 2 == 1:
        near = model.embed(x + 0.01 * torch.randn_like(x))
        loss = loss + near.std(0).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
