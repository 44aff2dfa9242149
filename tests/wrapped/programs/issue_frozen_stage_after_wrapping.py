import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


dist.init_process_group("gloo")
network = Detector()

detector = DistributedDataParallel(network)
network.backbone.requires_grad_(False)
optimizer = torch.optim.SGD([p for p in detector.parameters() if p.requires_grad], 0.1)
for step in range(3):
    optimizer.zero_grad()
    detector(torch.randn(4, 6)).square().mean().backward()  # TAPE602
    optimizer.step()
