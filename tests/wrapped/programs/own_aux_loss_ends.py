import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 6)
        self.aux = nn.Linear(6, 2)
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        h = self.stem(x).relu()
        return self.out(h), self.aux(h)


def run(epochs=3):
    dist.init_process_group("gloo")
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for _ in range(2):
            out, aux = model(torch.randn(4, 6))  # TAPE602
            target = torch.randint(0, 2, (4,))
            loss = criterion(out, target)
            if epoch < 1:
                loss = loss + 0.4 * criterion(aux, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


run()
