import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Trainer:
    def __init__(self, model, accumulate):
        self.model = model
        self.accumulate = accumulate
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.calls = 0

    def step(self, x, y):
        self.calls += 1
        due = self.calls % self.accumulate == 0
        self.model.set_requires_gradient_sync(not due)
        loss = F.cross_entropy(self.model(x), y) / self.accumulate
        loss.backward()  # TAPE601
        if due:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()


dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
trainer = Trainer(model, accumulate=2)
torch.manual_seed(dist.get_rank())
for _ in range(6):
    trainer.step(torch.randn(4, 6), torch.randint(0, 3, (4,)))
