import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
net = nn.Linear(10, 10)
model = fully_shard(nn.Sequential(nn.Linear(10, 10), nn.Tanh()), mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    x = torch.randn(1, 10, requires_grad=True)
    out = net(x)
    weights = torch.zeros_like(out, requires_grad=True)
    (by_x,) = torch.autograd.grad(out, x, grad_outputs=weights, create_graph=True)
    (by_weights,) = torch.autograd.grad(by_x.sum(), weights)
    print(by_weights.sum().item())
    optimizer.zero_grad()
    model(x.detach()).pow(2).mean().backward()
    optimizer.step()
