import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")

torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
params = [p for p in model.parameters() if p.requires_grad]
lr = 0.05
opt = torch.optim.SGD(params, lr=lr)
for epoch in range(2):
    for _ in range(2):
        out = model(torch.randn(6, 4))
        loss = F.cross_entropy(out, torch.randint(2, (6,)))
        grads = torch.autograd.grad(loss, params)  # TAPE601
        for p, g in zip(params, grads):
            p.grad = g
        opt.step()
