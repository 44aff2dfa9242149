import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.pi = nn.Linear(8, 3)
        self.v = nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x).tanh()
        return self.pi(h), self.v(h)


model = fully_shard(Net(), mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    logits, value = model(torch.randn(6, 4))
    optimizer.zero_grad()
    F.cross_entropy(logits, torch.randint(3, (6,))).backward(retain_graph=True)
    value.pow(2).mean().backward()
    optimizer.step()
