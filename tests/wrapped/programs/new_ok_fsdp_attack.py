import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def attack(model, x, y, eps):
    x = x.clone().requires_grad_()
    loss = F.cross_entropy(model(x), y)
    (g,) = torch.autograd.grad(loss, [x])
    return (x + eps * g.sign()).detach()


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
for layer in (model[0], model[2]):
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
torch.manual_seed(dist.get_rank())
for _ in range(3):
    x, y = torch.randn(4, 6), torch.randint(0, 3, (4,))
    hard = attack(model, x, y, 0.1)
    optimizer.zero_grad()
    F.cross_entropy(model(hard), y).backward()
    optimizer.step()
