import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.left = nn.Linear(4, 1)
        self.right = nn.Linear(4, 1)

    def forward(self, x, which):
        h = self.gate(x)
        if which == 0:
            return self.left(h)
        return self.right(h)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    net = DDP(Experts())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i in range(4):
        optimizer.zero_grad()
        loss = net(torch.randn(5, 4), i % 2).pow(2).mean()  # TAPE602
        loss.backward()
        optimizer.step()


main()
