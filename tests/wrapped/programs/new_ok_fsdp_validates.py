import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(5, 8)
        self.outer = nn.Linear(8, 5)

    def forward(self, x):
        return self.outer(self.inner(x).relu())


@torch.no_grad()
def validate(model, x):
    return model(x).sub(x).abs().mean().item()


dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = Net()
fully_shard(model.inner, mesh=mesh)
fully_shard(model.outer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
held = torch.randn(4, 5)
for _ in range(3):
    x = torch.randn(4, 5)
    loss = (model(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    before = validate(model, held)
    optimizer.step()
    after = validate(model, held)
