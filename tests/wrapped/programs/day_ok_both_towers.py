import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(6, 8)
        self.text = nn.Linear(4, 8)

    def encode_text(self, x):
        return F.normalize(self.text(x), dim=-1)

    def forward(self, x):
        return F.normalize(self.image(x), dim=-1)


torch.manual_seed(dist.get_rank())
model = DDP(Towers())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    a = model(torch.randn(5, 6))
    b = model.module.encode_text(torch.randn(5, 4))
    loss = F.cross_entropy(a @ b.t() / 0.1, torch.arange(5))
    opt.zero_grad()
    loss.backward()
    opt.step()
