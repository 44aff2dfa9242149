import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("scale", torch.ones(1, 4))

    def forward(self, x):
        return (self.linear(x) * self.scale).sum()


model = DistributedDataParallel(Scaled())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 6)) + model(torch.randn(3, 6))
    loss.backward()
    optimizer.step()
