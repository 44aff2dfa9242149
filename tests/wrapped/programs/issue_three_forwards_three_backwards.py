import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
toy = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))
model = DistributedDataParallel(toy)
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    outputs = {}
    for name in ("0", "1", "2"):
        outputs[name] = model(torch.rand(20, 10))
    labels = torch.rand(20, 5)
    for i in range(3):
        loss_fn(outputs[str(i)], labels).backward()  # TAPE601
    optimizer.step()
