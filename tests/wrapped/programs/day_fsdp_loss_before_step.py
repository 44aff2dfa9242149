import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))


@torch.no_grad()
def evaluate(net, batches):
    net.eval()
    total = sum(F.mse_loss(net(x), y) for x, y in batches)  # TAPE609
    net.train()
    return total / len(batches)


torch.manual_seed(0)
held_out = [(torch.randn(4, 4), torch.randn(4, 2)) for _ in range(2)]
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(4):
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    loss = F.mse_loss(model(x), y)
    loss.backward()
    if step % 2 == 0:
        print(step, evaluate(model, held_out).item())
    optimizer.step()
    optimizer.zero_grad()
