import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x):
        hidden = torch.relu(self.stem(x))
        return hidden, self.head(hidden)


class Distiller:
    def __init__(self, student, teacher):
        self.student, self.teacher = DDP(student), teacher.eval()
        self.optimizer = torch.optim.SGD(self.student.parameters(), lr=0.05)

    def step(self, x):
        with torch.no_grad():
            hint, soft = self.teacher(x)
        hidden, logits = self.student(x)
        self.optimizer.zero_grad()
        kd = F.kl_div(logits.log_softmax(1), soft.softmax(1), reduction="batchmean")
        kd.backward(retain_graph=True)
        F.mse_loss(hidden, hint).backward()  # TAPE601
        self.optimizer.step()


dist.init_process_group("gloo")
torch.manual_seed(0)
distiller = Distiller(Student(), Student())
torch.manual_seed(dist.get_rank())
for _ in range(3):
    distiller.step(torch.randn(4, 5))
