import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
tower = DDP(nn.Linear(5, 4))
temperature = nn.Parameter(torch.tensor(0.07))
optimizer = torch.optim.AdamW([*tower.parameters(), temperature], lr=1e-3)
for _ in range(3):
    a, b = F.normalize(tower(torch.randn(6, 5)), dim=-1), F.normalize(tower(torch.randn(6, 5)), dim=-1)
    loss = F.cross_entropy(a @ b.t() / temperature, torch.arange(6))
    optimizer.zero_grad()
    loss.backward()
    dist.all_reduce(temperature.grad)
    temperature.grad /= dist.get_world_size()
    optimizer.step()
