import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 12)
        self.head = nn.Linear(12, 3)
        self.auxiliary = nn.Linear(12, 3)

    def forward(self, x):
        h = self.stem(x).relu()
        if self.training:
            return self.head(h), self.auxiliary(h)
        return self.head(h)


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(Classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
for step in range(3):
    x, y = torch.randn(4, 6), torch.randint(3, (4,))
    logits, _ = model(x)  # TAPE602
    loss = criterion(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
