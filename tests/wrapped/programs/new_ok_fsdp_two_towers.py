import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(6, 4)
        self.text = nn.Linear(5, 4)

    def encode_image(self, x):
        return F.normalize(self.image(x), dim=-1)

    def encode_text(self, x):
        return F.normalize(self.text(x), dim=-1)

    def forward(self, x, t):
        return self.encode_image(x) @ self.encode_text(t).T


dist.init_process_group("gloo")
model = TwoTower()
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
for name in ("encode_image", "encode_text"):
    register_fsdp_forward_method(model, name)
optimizer = torch.optim.Adam(model.parameters())
torch.manual_seed(dist.get_rank())
for _ in range(3):
    image, text = model.encode_image(torch.randn(4, 6)), model.encode_text(torch.randn(4, 5))
    loss = F.cross_entropy(image @ text.T, torch.arange(4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
