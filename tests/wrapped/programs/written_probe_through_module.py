import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 12), nn.GELU())
        self.head = nn.Linear(12, 3)

    def features(self, x):
        return self.trunk(x)

    def forward(self, x):
        return self.head(self.features(x))


class Distiller:
    def __init__(self, student, teacher):
        self.student, self.teacher = student, teacher
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)

    def loss(self, x):
        with torch.no_grad():
            wanted = self.teacher(x)
        core = self.student.module if hasattr(self.student, "module") else self.student
        hidden = core.features(x)
        return nn.functional.mse_loss(core.head(hidden), wanted) + 1e-3 * hidden.abs().mean()

    def step(self, x):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(x)
        loss.backward()  # TAPE601
        self.optimizer.step()
        return loss.item()


dist.init_process_group("gloo")
torch.manual_seed(0)
teacher = Encoder().eval()
student = DDP(Encoder())
torch.manual_seed(dist.get_rank())
distiller = Distiller(student, teacher)
for _ in range(3):
    distiller.step(torch.randn(8, 6))
