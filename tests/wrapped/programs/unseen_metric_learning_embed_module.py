import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def embed(model, x):
    net = model.module
    return F.normalize(net.project(net.encoder(x)), dim=1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.project = nn.Linear(16, 4)

    def forward(self, x):
        return self.project(self.encoder(x))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Net())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    a, b = torch.randn(4, 8), torch.randn(4, 8)
    logits = embed(model, a) @ embed(model, b).t() / 0.1
    loss = F.cross_entropy(logits, torch.arange(4))
    opt.zero_grad()
    loss.backward()  # TAPE601
    opt.step()
