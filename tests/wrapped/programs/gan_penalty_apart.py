import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = DDP(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)))
critic = DDP(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
for step in range(3):
    real = torch.randn(8, 2)
    fake = generator(torch.randn(8, 2))
    scores = critic(torch.cat([real, fake.detach()]))
    critic_loss = scores[8:].mean() - scores[:8].mean()
    critic_optimizer.zero_grad()
    critic_loss.backward(retain_graph=True)
    drift = scores.pow(2).mean() * 0.001
    drift.backward()  # TAPE601
    critic_optimizer.step()
    generator_optimizer.zero_grad()
    (-critic(fake).mean()).backward()
    generator_optimizer.step()
