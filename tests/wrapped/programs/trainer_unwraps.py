import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, network):
        self.model = DDP(network)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.loss = nn.CrossEntropyLoss()

    @property
    def network(self):
        return self.model.module if hasattr(self.model, "module") else self.model

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.network(x), y)
        loss.backward()  # TAPE601
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    trainer = Trainer(nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Linear(16, 3)))
    for _ in range(3):
        trainer.step(torch.randn(8, 4), torch.randint(3, (8,)))


main()
