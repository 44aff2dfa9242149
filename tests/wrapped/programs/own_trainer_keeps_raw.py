import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        return self.net(x)


class Trainer:
    def __init__(self, rank):
        self.ddp = DDP(Encoder())
        self.encoder = self.ddp.module
        self.optim = torch.optim.AdamW(self.ddp.parameters(), lr=1e-3)
        torch.manual_seed(100 + rank)

    def contrast(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        return 1 - torch.cosine_similarity(za, zb, dim=1).mean()

    def fit(self, steps):
        for _ in range(steps):
            x = torch.randn(4, 8)
            loss = self.contrast(x, x + 0.1 * torch.randn_like(x))
            self.optim.zero_grad(set_to_none=True)
            loss.backward()  # TAPE601
            self.optim.step()


def main():
    dist.init_process_group("gloo")
    Trainer(dist.get_rank()).fit(4)


if __name__ == "__main__":
    main()
