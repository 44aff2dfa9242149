import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.func import functional_call

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)))
meta = torch.optim.Adam(model.parameters(), lr=1e-3)
for iteration in range(2):
    meta.zero_grad()
    for task in range(2):
        x, y = torch.randn(4, 2), torch.randn(4, 1)
        weights = dict(model.module.named_parameters())
        inner = F.mse_loss(functional_call(model.module, weights, (x,)), y)
        gradients = torch.autograd.grad(inner, weights.values(), create_graph=True)
        fast = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), gradients)}
        outer = F.mse_loss(functional_call(model.module, fast, (torch.randn(4, 2),)), y)
        outer.backward()  # TAPE601
    meta.step()
