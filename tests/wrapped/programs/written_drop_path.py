import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.early = Block(6)
        self.late = Block(6)
        self.out = nn.Linear(6, 2)

    def forward(self, x, shallow=False):
        x = self.early(x)
        if not shallow:
            x = self.late(x)
        return self.out(x)


dist.init_process_group("gloo")
torch.manual_seed(0)
net = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(4):
    x, y = torch.randn(6, 6), torch.randint(0, 2, (6,))
    logits = net(x, shallow=step % 2 == 0)  # TAPE602
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
