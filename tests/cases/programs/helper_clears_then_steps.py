import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.history = []

    def apply_gradients(self):
        for group in self.optimizer.param_groups:
            for p in group["params"]:
                p.grad = None
        self.optimizer.step()

    def fit(self, batches):
        for x, y in batches:
            loss = nn.functional.l1_loss(self.model(x), y)
            loss.backward()
            self.apply_gradients()
            self.history.append(loss.item())


trainer = Trainer(nn.Sequential(nn.Linear(3, 6), nn.SiLU(), nn.Linear(6, 1)))
trainer.fit([(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(4)])
print(trainer.history)
