import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
critic = DDP(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)))
optimizer = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))


def penalty(real, fake):
    mixed = torch.lerp(real, fake, torch.rand(real.size(0), 1)).requires_grad_()
    score = critic(mixed)
    (slope,) = torch.autograd.grad(score.sum(), mixed, create_graph=True)
    return (slope.norm(2, dim=1) - 1).square().mean() + 0.0 * score.sum()


for step in range(3):
    real, fake = torch.randn(4, 2), torch.randn(4, 2)
    optimizer.zero_grad()
    (critic(fake).mean() - critic(real).mean()).backward()
    (10 * penalty(real, fake)).backward()
    optimizer.step()
