import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
for layer in model:
    if isinstance(layer, nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    x, y = torch.randn(6, 4), torch.randint(2, (6,))
    loss = F.cross_entropy(model(x), y)
    sparsity = sum(p.abs().sum() for p in model.parameters())
    loss = loss + 1e-4 * sparsity
    loss.backward()  # TAPE608
    optimizer.step()
    optimizer.zero_grad()
