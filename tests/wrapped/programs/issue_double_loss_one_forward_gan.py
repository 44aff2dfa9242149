import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2))
        self.score = nn.Linear(8, 1)
        self.label = nn.Linear(8, 3)

    def forward(self, x):
        h = self.features(x)
        return self.score(h), self.label(h)


dist.init_process_group("gloo")
critic = DistributedDataParallel(Critic())
optimizer = torch.optim.Adam(critic.parameters(), 1e-3)
for step in range(2):
    score, label = critic(torch.randn(6, 4))
    adversarial = nn.functional.softplus(-score).mean()
    classification = nn.functional.cross_entropy(label, torch.randint(0, 3, (6,)))
    optimizer.zero_grad()
    adversarial.backward(retain_graph=True)
    classification.backward()  # TAPE605
    optimizer.step()
