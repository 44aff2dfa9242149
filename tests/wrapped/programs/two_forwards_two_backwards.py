import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(3):
    clean = torch.randn(6, 4)
    noisy = clean + 0.1 * torch.randn(6, 4)
    y_clean = model(clean)
    y_noisy = model(noisy)
    optimizer.zero_grad()
    y_clean.pow(2).mean().backward()
    y_noisy.pow(2).mean().backward()  # TAPE601
    optimizer.step()
