import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = {phase: [(torch.randn(8, 6), torch.randint(0, 2, (8,))) for _ in range(3)] for phase in ("train", "val")}

for epoch in range(2):
    for phase in ("train", "val"):
        model.train(phase == "train")
        running = 0.0
        for x, y in data[phase]:
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                loss = nn.functional.cross_entropy(model(x), y)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
            running += loss.item()
        print(phase, running)
