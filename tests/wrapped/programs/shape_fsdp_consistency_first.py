import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.body(x))

    def encode(self, x):
        return self.body(x)  # TAPE608


dist.init_process_group("gloo")
torch.manual_seed(0)
model = Tagger()
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(dist.get_rank())
for step in range(2):
    x, near = torch.randn(4, 8), torch.randn(4, 8)
    loss = (model.encode(x) - model.encode(near)).square().mean()
    loss = loss + model(x).logsumexp(1).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
