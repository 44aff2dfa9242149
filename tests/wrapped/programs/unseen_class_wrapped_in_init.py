import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Learner:
    def __init__(self):
        self.net = nn.Linear(3, 3)
        self.ddp_net = DistributedDataParallel(self.net)
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=1e-3)

    def update(self, batch):
        self.opt.zero_grad()
        out = self.net(batch)
        loss = (out - batch).abs().mean()
        loss.backward()  # TAPE601
        self.opt.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank() + 1)
    learner = Learner()
    for i in range(4):
        learner.update(torch.randn(7, 3))
