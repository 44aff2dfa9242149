import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class CheckpointFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, count, *args):
        ctx.run, ctx.given, ctx.parameters = run, list(args[:count]), list(args[count:])
        with torch.no_grad():
            return run(*ctx.given)

    @staticmethod
    def backward(ctx, *gradients):
        given = [value.detach().requires_grad_(True) for value in ctx.given]
        with torch.enable_grad():
            result = ctx.run(*given)
        return (None, None, *torch.autograd.grad(result, given + ctx.parameters, gradients))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.embed = nn.Sequential(nn.Linear(4, 4), nn.SiLU())
        self.first = nn.Bilinear(4, 4, 4)
        self.mix = nn.Linear(4, 4)
        self.second = nn.Bilinear(4, 4, 4)

    def forward(self, x, t):
        h, emb = self.stem(x), self.embed(t)
        h = CheckpointFunction.apply(self.first, 2, h, emb, *self.first.parameters())
        h = CheckpointFunction.apply(self.mix, 1, h, *self.mix.parameters())
        return h + CheckpointFunction.apply(self.second, 2, h, emb, *self.second.parameters())


dist.init_process_group("gloo")
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(6, 4), torch.randn(6, 4)).pow(2).mean().backward()
    optimizer.step()
