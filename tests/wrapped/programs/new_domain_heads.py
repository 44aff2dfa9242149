import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MultiDomain(nn.Module):
    def __init__(self, domains):
        super().__init__()
        self.shared = nn.Linear(6, 10)
        self.heads = nn.ModuleDict({name: nn.Linear(10, 2) for name in domains})

    def forward(self, x, domain):
        return self.heads[domain](F.relu(self.shared(x)))


def setup(domains):
    dist.init_process_group("gloo")
    return DDP(MultiDomain(domains), broadcast_buffers=False)


DOMAINS = ["photo", "sketch", "clip"]
model = setup(DOMAINS)
optimizer = torch.optim.Adam(model.parameters())
torch.manual_seed(dist.get_rank())
for epoch in range(2):
    for domain in DOMAINS:
        logits = model(torch.randn(4, 6), domain)  # TAPE602
        loss = F.cross_entropy(logits, torch.randint(0, 2, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
