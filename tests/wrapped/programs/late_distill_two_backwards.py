import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(10 + dist.get_rank())


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 12)
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        features = torch.relu(self.stem(x))
        return features, self.head(features)


teacher = Student().eval()
for p in teacher.parameters():
    p.requires_grad = False
student = DDP(Student())
opt = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
for i in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 4, (8,))
    with torch.no_grad():
        t_features, t_logits = teacher(x)
    features, logits = student(x)
    opt.zero_grad(set_to_none=True)
    task = F.cross_entropy(logits, y) + F.kl_div(logits.log_softmax(-1), t_logits.softmax(-1), reduction="batchmean")
    task.backward(retain_graph=True)
    hint = F.mse_loss(features, t_features)
    hint.backward()  # TAPE601
    opt.step()
