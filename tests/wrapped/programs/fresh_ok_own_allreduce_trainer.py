import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Linear(2, 6)

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(z), mean, log_variance

    def elbo(self, x):
        y, mean, log_variance = self(x)
        return (y - x).square().mean() - 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).mean()


def average(module):
    for parameter in module.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Vae())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    optimizer.zero_grad()
    model.module.elbo(torch.randn(4, 6)).backward()
    average(model.module)
    optimizer.step()
