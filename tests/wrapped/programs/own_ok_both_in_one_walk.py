import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)

    def forward(self, ids):
        return self.head(self.emb(ids))

    def distill_loss(self, ids, teacher):
        return nn.functional.mse_loss(self(ids), teacher)


dist.init_process_group("gloo")
lm = DDP(LM())
opt = torch.optim.AdamW(lm.parameters(), 1e-3)
torch.manual_seed(dist.get_rank())
for step in range(3):
    ids = torch.randint(0, 11, (2, 5))
    ce = nn.functional.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    kd = lm.module.distill_loss(ids, torch.randn(2, 5, 11))
    (ce + kd).backward()
    torch.nn.utils.clip_grad_norm_(lm.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
