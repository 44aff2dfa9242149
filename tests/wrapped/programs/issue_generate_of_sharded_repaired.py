import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.block = nn.Linear(8, 8)
        self.head = nn.Linear(8, 12)

    def forward(self, tokens):
        return self.head(self.block(self.embed(tokens)).relu())

    @torch.no_grad()
    def generate(self, tokens, steps):
        for _ in range(steps):
            logits = self.head(self.block(self.embed(tokens)).relu())
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
        return tokens


model = Decoder()
fully_shard(model.block, mesh=mesh)
fully_shard(model, mesh=mesh)
register_fsdp_forward_method(model, "generate")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    tokens = torch.randint(12, (4, 6))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(model.generate(tokens[:, :2], 3).shape)
