import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(6, 8)
        self.text = nn.Linear(4, 8)
        self.scale = nn.Parameter(torch.ones(1))

    def encode_image(self, x):
        return F.normalize(self.image(x), dim=-1)  # TAPE608

    def encode_text(self, x):
        return F.normalize(self.text(x), dim=-1)

    def forward(self, image, text):
        return self.scale * self.encode_image(image) @ self.encode_text(text).t()


model = Clip()
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    image, text = torch.randn(5, 6), torch.randn(5, 4)
    a, b = model.encode_image(image), model.encode_text(text)
    loss = F.cross_entropy(a @ b.t(), torch.arange(5))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
