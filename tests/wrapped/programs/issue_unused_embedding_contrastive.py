import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Linear(5, 4)
        self.text = nn.Linear(7, 4)
        self.logit_scale = nn.Parameter(torch.zeros(()))

    def forward(self, image, text):
        return self.image(image), self.text(text)


dist.init_process_group("gloo")
clip = DistributedDataParallel(Clip())
optimizer = torch.optim.Adam(clip.parameters())
for step in range(3):
    image, text = clip(torch.randn(4, 5), torch.randn(4, 7))  # TAPE602
    logits = image @ text.t()
    loss = nn.functional.cross_entropy(logits, torch.arange(4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
