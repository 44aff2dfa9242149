"""Distilling a teacher in lower precision: autocast, a gradient scaler, unscaling before clipping, stochastic averaging."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn

torch.manual_seed(19)
teacher = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
student = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 4))
optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
averaged = AveragedModel(student)
data = [torch.randn(16, 6) for _ in range(3)]

for epoch in range(3):
    for batch in data:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            with torch.no_grad():
                wanted = teacher(batch).float().softmax(-1)
            logits = student(batch)
            loss = nn.functional.kl_div(logits.float().log_softmax(-1), wanted, reduction="batchmean")
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        schedule.step()
    averaged.update_parameters(student)
    print(epoch, loss.item(), norm.item(), scaler.get_scale())
update_bn(data, averaged)
print(averaged(data[0]).sum().item())
