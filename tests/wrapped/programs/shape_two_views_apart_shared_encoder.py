import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
        self.predictor = nn.Linear(4, 4)

    def forward(self, x):
        z = self.encoder(x)
        return self.predictor(z), z.detach()


def similarity(p, z):
    return -F.cosine_similarity(p, z, dim=-1).mean()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(SimSiam())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch.manual_seed(dist.get_rank())
for x in torch.randn(3, 5, 6):
    one, two = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    p1, z1 = model(one)
    p2, z2 = model(two)
    optimizer.zero_grad()
    for p, z in ((p1, z2), (p2, z1)):
        (similarity(p, z) / 2).backward()  # TAPE601
    optimizer.step()
