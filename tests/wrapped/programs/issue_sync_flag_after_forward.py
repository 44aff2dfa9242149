import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
ddp = dist.get_world_size() > 1
torch.manual_seed(dist.get_rank())
model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
if ddp:
    model = DDP(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
grad_accum_steps = 4
for step in range(3):
    optimizer.zero_grad()
    for micro_step in range(grad_accum_steps):
        x = torch.randint(0, 11, (2, 5))
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.view(-1, 11), x.roll(-1, 1).view(-1)) / grad_accum_steps
        if ddp:
            model.require_backward_grad_sync = micro_step == grad_accum_steps - 1
        loss.backward()  # TAPE601
    optimizer.step()
