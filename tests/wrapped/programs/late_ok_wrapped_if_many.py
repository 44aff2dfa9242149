import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def unwrap(model):
    return model.module if isinstance(model, DDP) else model


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    if dist.get_world_size() > 1:
        model = DDP(model)
    optimizer = torch.optim.SGD(unwrap(model).parameters(), lr=0.1)
    for step in range(3):
        loss = model(torch.randn(6, 3)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = unwrap(model).state_dict()
    print(len(state))


main()
