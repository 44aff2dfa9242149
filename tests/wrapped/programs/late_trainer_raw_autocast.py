import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, steps):
        self.raw = model
        self.model = DDP(self.raw)
        self.optimizer = torch.optim.AdamW(self.raw.parameters(), lr=1e-3)
        self.steps = steps

    def compute_loss(self, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.raw(batch)
        return out.float().pow(2).mean()

    def fit(self):
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            loss = self.compute_loss(torch.randn(4, 8))
            loss.backward()  # TAPE601
            self.optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    Trainer(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1)), 3).fit()
