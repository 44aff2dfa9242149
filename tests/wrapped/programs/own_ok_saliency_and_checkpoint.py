import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False).relu() + x
        return x


dist.init_process_group("gloo")
model = DDP(Deep())
opt = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    x = torch.randn(4, 6, requires_grad=True)
    score = model(x).pow(2).mean()
    saliency, = torch.autograd.grad(score, x, retain_graph=True)
    opt.zero_grad()
    score.backward()
    opt.step()
    print(saliency.norm().item())
