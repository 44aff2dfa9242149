import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class MeanTeacher:
    def __init__(self, student, decay=0.9):
        self.student = student
        self.teacher = copy.deepcopy(student.module).requires_grad_(False)
        self.decay = decay

    def loss(self, x):
        with torch.no_grad():
            target = self.teacher(x + 0.1 * torch.randn_like(x))
        return nn.functional.mse_loss(self.student(x), target)

    @torch.no_grad()
    def update(self):
        for slow, fast in zip(self.teacher.parameters(), self.student.module.parameters()):
            slow.lerp_(fast, 1 - self.decay)


dist.init_process_group("gloo")
method = MeanTeacher(DDP(nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 3))))
opt = torch.optim.SGD(method.student.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for _ in range(4):
    loss = method.loss(torch.randn(6, 5))
    opt.zero_grad()
    loss.backward()
    opt.step()
    method.update()
