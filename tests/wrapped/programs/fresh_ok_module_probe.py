import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def encode(self, x):
        return self.encoder(x).relu()

    def forward(self, x):
        return self.head(self.encode(x))


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model, probe = DDP(Net()), DDP(nn.Linear(8, 3))
main_optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
probe_optimizer = torch.optim.SGD(probe.parameters(), lr=0.1)
for step in range(3):
    x = torch.randn(5, 4)
    loss = model(x).pow(2).mean()
    main_optimizer.zero_grad()
    loss.backward()
    main_optimizer.step()
    features = model.module.encode(x).detach()
    probe_loss = nn.functional.cross_entropy(probe(features), torch.randint(3, (5,)))
    probe_optimizer.zero_grad()
    probe_loss.backward()
    probe_optimizer.step()
