import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 4)
        self.decode = nn.Linear(2, 6)

    def forward(self, x):
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(z), mean, log_variance

    def training_loss(self, x):
        out, mean, log_variance = self(x)
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        return (out - x).pow(2).mean() + divergence


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(Vae())
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(2):
    for batch in range(2):
        loss = model.module.training_loss(torch.randn(5, 6))
        optimizer.zero_grad()
        loss.backward()  # TAPE601
        optimizer.step()
