import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import autograd, nn
from torch.nn.parallel import DistributedDataParallel


class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        kernel = torch.tensor([1.0, 2.0, 1.0])
        self.register_buffer("kernel", (kernel / kernel.sum()).view(1, 1, 3))

    def forward(self, x):
        return F.conv1d(x.unsqueeze(1), self.kernel, padding=1).squeeze(1)


def requires_grad(model, flag):
    for parameter in model.parameters():
        parameter.requires_grad = flag


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
generator = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), Blur(), nn.LeakyReLU(0.2), nn.Linear(8, 6)))
discriminator = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), Blur(), nn.LeakyReLU(0.2), nn.Linear(8, 1)))
g_optimizer = torch.optim.Adam(generator.parameters(), betas=(0.0, 0.99))
d_optimizer = torch.optim.Adam(discriminator.parameters(), betas=(0.0, 0.99))
for step in range(4):
    real = torch.randn(5, 6)
    requires_grad(generator, False)
    requires_grad(discriminator, True)
    fake = generator(torch.randn(5, 4))
    d_loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake)).mean()
    discriminator.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    if step % 2 == 0:
        real.requires_grad_()
        score = discriminator(real)
        (gradient,) = autograd.grad(score.sum(), real, create_graph=True)
        discriminator.zero_grad()
        (5 * gradient.square().sum(1).mean() + 0 * score[0].sum()).backward()
        d_optimizer.step()
    requires_grad(generator, True)
    requires_grad(discriminator, False)
    g_loss = F.softplus(-discriminator(generator(torch.randn(5, 4)))).mean()
    generator.zero_grad()
    g_loss.backward()
    g_optimizer.step()
