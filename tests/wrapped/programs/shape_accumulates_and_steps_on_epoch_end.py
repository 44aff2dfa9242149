import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(dist.get_rank())
EVERY = 3
for epoch in range(2):
    batches = [(torch.randn(4, 6), torch.randint(0, 3, (4,))) for _ in range(4)]
    for number, (x, y) in enumerate(batches, 1):
        due = number % EVERY == 0
        if due:
            F.cross_entropy(model(x), y).div(EVERY).backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            with model.no_sync():
                F.cross_entropy(model(x), y).div(EVERY).backward()  # TAPE601
    optimizer.step()
    optimizer.zero_grad()
