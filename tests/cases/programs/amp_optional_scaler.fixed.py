import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


def train_one_epoch(model, loader, optimizer, scaler=None, max_norm=1.0):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(1, 8, 4, stride=4)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        return self.head(self.mix(tokens).mean(1))


model = Patches()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
loader = [(torch.randn(4, 1, 8, 8), torch.randint(0, 3, (4,))) for _ in range(3)]
train_one_epoch(model, loader, optimizer, scaler)
train_one_epoch(model, loader, optimizer)
