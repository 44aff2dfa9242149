import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(3))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x)


net = Net()
x = torch.randn(4, 6, requires_grad=True)
scores = net(x)
(saliency,) = torch.autograd.grad(scores[:, 0].sum(), x)  # TAPE606
print(saliency.abs().mean())
