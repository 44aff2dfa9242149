import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 4)
        self.refine = nn.Linear(4, 4)

    def forward(self, x, refine):
        x = self.trunk(x)
        if refine:
            x = x + self.refine(x)
        return x


dist.init_process_group("gloo")
torch.manual_seed(0)
net = DDP(Net())
opt = torch.optim.Adam(net.parameters())
for epoch in range(3):
    refine = epoch >= 1
    for _ in range(2):
        opt.zero_grad()
        out = net(torch.randn(2, 4), refine)  # TAPE602
        out.square().mean().backward()
        opt.step()
