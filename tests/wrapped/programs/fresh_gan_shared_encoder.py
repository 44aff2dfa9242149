import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, width), nn.LeakyReLU(0.2))
        self.out = nn.Linear(width, 1)

    def features(self, x):
        return self.trunk(x)

    def forward(self, x):
        return self.out(self.features(x))


class FeatureMatching:
    def __init__(self, critic):
        self.extract = critic.module.features if isinstance(critic, DDP) else critic.features

    def __call__(self, real, fake):
        return F.l1_loss(self.extract(fake), self.extract(real))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(100 + dist.get_rank())
    critic = DDP(Critic(8))
    matching = FeatureMatching(critic)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for epoch in range(2):
        for _ in range(2):
            real, fake = torch.randn(4, 3), torch.randn(4, 3) + 1
            optimizer.zero_grad()
            F.softplus(-critic(real)).mean().backward()
            (-matching(real, fake)).backward()  # TAPE601
            optimizer.step()


main()
