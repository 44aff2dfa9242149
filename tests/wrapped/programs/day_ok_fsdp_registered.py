import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
from torch.distributed.fsdp import register_fsdp_forward_method


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 8)
        self.out = nn.Linear(8, 2)

    def features(self, x):
        return self.lin(x).tanh()

    def forward(self, x):
        return self.out(self.features(x))


model = Encoder()
fully_shard(model, mesh=mesh)
register_fsdp_forward_method(model, "features")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    x = torch.randn(6, 4)
    loss = model.features(x).pow(2).mean() + model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
