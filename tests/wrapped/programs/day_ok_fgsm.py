import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")


def attack(net, x, y, eps=0.1):
    x = x.clone().requires_grad_()
    loss = F.cross_entropy(net(x), y)
    (grad,) = torch.autograd.grad(loss, x)
    return (x + eps * grad.sign()).detach()


torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x, y = torch.randn(6, 4), torch.randint(2, (6,))
    adv = attack(model.module, x, y)
    loss = F.cross_entropy(model(adv), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
