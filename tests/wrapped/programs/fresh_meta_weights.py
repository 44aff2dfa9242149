import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
student = DDP(nn.Sequential(nn.Linear(5, 7), nn.SiLU(), nn.Linear(7, 2)))
log_weight = torch.zeros(2, requires_grad=True)
meta = torch.optim.Adam([log_weight], lr=0.01)


def weighted(x, y):
    errors = nn.functional.mse_loss(student(x), y, reduction="none")
    return (errors * log_weight.exp()).mean()


for step in range(3):
    student.zero_grad()
    weighted(torch.randn(8, 5), torch.randn(8, 2)).backward(create_graph=True)  # TAPE607
    alignment = sum((p.grad * torch.randn_like(p)).sum() for p in student.parameters())
    meta.zero_grad()
    alignment.backward()
    meta.step()
