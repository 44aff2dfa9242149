import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 8), nn.Tanh())
        self.lm_head = nn.Linear(8, 9, bias=False)

    def get_decoder(self):
        return self.decoder

    def forward(self, tokens):
        return self.lm_head(self.decoder(tokens))


def unwrap(model):
    return model.module if hasattr(model, "module") else model


dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
teacher = Student().requires_grad_(False)
model = DistributedDataParallel(Student())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    tokens = torch.randint(0, 9, (2, 6))
    student = unwrap(model)
    hidden = student.get_decoder()(tokens)
    logits = student.lm_head(hidden)
    with torch.no_grad():
        target = teacher(tokens).softmax(-1)
    loss = F.kl_div(logits.log_softmax(-1), target, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()  # TAPE601
    optimizer.step()
