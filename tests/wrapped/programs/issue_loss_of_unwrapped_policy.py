import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, policy):
        self.reference = copy.deepcopy(policy).requires_grad_(False)
        self.model = DistributedDataParallel(policy)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def compute_loss(self, chosen, rejected):
        policy = self.model.module
        margin = policy(chosen) - policy(rejected)
        with torch.no_grad():
            margin_of_reference = self.reference(chosen) - self.reference(rejected)
        return -F.logsigmoid(0.1 * (margin - margin_of_reference)).mean()

    def step(self, chosen, rejected):
        loss = self.compute_loss(chosen, rejected)
        self.optimizer.zero_grad()
        loss.backward()  # TAPE601
        self.optimizer.step()


dist.init_process_group("gloo")
trainer = Trainer(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1, bias=False)))
torch.manual_seed(dist.get_rank())
for batch in range(3):
    trainer.step(torch.randn(6, 4), torch.randn(6, 4))
