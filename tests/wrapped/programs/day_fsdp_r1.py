import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


def r1(score, real):
    (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    return grad.square().sum(1).mean()


model = fully_shard(nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1)), mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(2):
    real, fake = torch.randn(6, 4).requires_grad_(), torch.randn(6, 4)
    score = model(real)
    loss = F.softplus(-score).mean() + F.softplus(model(fake)).mean() + 5 * r1(score, real)
    optimizer.zero_grad()
    loss.backward()  # TAPE608
    optimizer.step()
