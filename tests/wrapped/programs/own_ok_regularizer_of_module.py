import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.dictionary = nn.Linear(4, 12)
        self.readout = nn.Linear(12, 4)

    def forward(self, x):
        return self.readout(self.dictionary(x).relu())

    def penalty(self):
        return self.dictionary.weight.abs().sum() + self.readout.weight.norm()


dist.init_process_group("gloo")
model = DDP(Sparse())
opt = torch.optim.Adam(model.parameters())
torch.manual_seed(dist.get_rank())
for _ in range(3):
    x = torch.randn(6, 4)
    loss = (model(x) - x).pow(2).mean() + 1e-3 * model.module.penalty()
    opt.zero_grad()
    loss.backward()
    opt.step()
