import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


def score(energy, x):
    x = x.requires_grad_()
    return -torch.autograd.grad(energy(x).sum(), x, create_graph=True)[0]


model = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))
for layer in model[0], model[2], model[4]:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    data = torch.randn(8, 2)
    noise = 0.1 * torch.randn_like(data)
    loss = (score(model, data + noise) + noise / 0.01).pow(2).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()  # TAPE608
    optimizer.step()
