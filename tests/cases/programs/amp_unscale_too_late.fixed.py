import torch
from torch import nn


def train_step(model, optimizer, scaler, batch, max_norm):
    inputs, targets = batch
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.l1_loss(model(inputs).float(), targets)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach(), norm


def main():
    model = nn.GRU(5, 8, batch_first=True)
    head = nn.Linear(8, 1)
    both = nn.ModuleDict({"rnn": model, "head": head})

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = both

        def forward(self, x):
            y, _ = self.parts["rnn"](x)
            return self.parts["head"](y[:, -1])

    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(4):
        loss, norm = train_step(net, optimizer, scaler, (torch.randn(4, 6, 5), torch.randn(4, 1)), 2.0)
        print(loss.item(), norm.item())


main()
