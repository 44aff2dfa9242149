import torch
from torch import nn
from torch.nn.utils import clip_grad_value_


class Trainer:
    def __init__(self, model, lr=1e-2, clip=0.5):
        self.model = model
        self.clip = clip
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(self.model(x).float(), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        if self.clip:
            clip_grad_value_(self.model.parameters(), self.clip)
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


trainer = Trainer(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1)))
for i in range(5):
    trainer.step(torch.randn(8, 3), torch.randn(8, 1))
