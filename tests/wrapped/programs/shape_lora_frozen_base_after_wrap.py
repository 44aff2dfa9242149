import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP



class LoRA(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def inject(model):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRA(child))
    return model


dist.init_process_group("gloo")
torch.manual_seed(0)
net = inject(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)))
model = DDP(net)
for module in model.modules():
    if isinstance(module, LoRA):
        for p in module.base.parameters():
            p.requires_grad = False
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
torch.manual_seed(dist.get_rank())
for x, y in [(torch.randn(3, 4), torch.randn(3, 2)) for _ in range(3)]:
    loss = F.mse_loss(model(x), y)  # TAPE602
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
