import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.classifier = nn.Linear(8, 3)

    def forward(self, x):
        return self.classifier(self.encoder(x))


def run():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = Model()
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    model = DDP(model)
    optimizer = torch.optim.SGD(model.module.classifier.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for _ in range(3):
        x, y = torch.randn(10, 8), torch.randint(0, 3, (10,))
        with torch.no_grad():
            features = model.module.encoder(x)
        loss = criterion(model.module.classifier(features), y)
        optimizer.zero_grad()
        loss.backward()  # TAPE601
        optimizer.step()


run()
