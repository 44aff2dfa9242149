import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = DDP(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)))
critic = DDP(nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 1)))
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(critic.parameters())
criterion = nn.BCEWithLogitsLoss()
for step in range(3):
    d_optimizer.zero_grad()
    criterion(critic(torch.randn(4, 2)), torch.ones(4, 1)).backward()
    fake = generator(torch.randn(4, 2))
    criterion(critic(fake.detach()), torch.zeros(4, 1)).backward()
    d_optimizer.step()
    g_optimizer.zero_grad()
    criterion(critic(fake), torch.ones(4, 1)).backward()
    g_optimizer.step()
