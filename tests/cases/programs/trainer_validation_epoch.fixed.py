import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(5, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.inner(x)).squeeze(-1)


class Trainer:
    def __init__(self, model, train_loader, val_loader):
        self.model = model
        self.train_loader, self.val_loader = train_loader, val_loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.criterion = nn.SmoothL1Loss()
        self.best = float("inf")

    def train_epoch(self):
        self.model.train()
        for x, y in self.train_loader:
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    def validate(self):
        self.model.eval()
        running = 0.0
        with torch.no_grad():
            for x, y in self.val_loader:
                loss = self.criterion(self.model(x), y)
                running += loss.item() * len(x)
        return running / len(self.val_loader.dataset)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.train_epoch()
            score = self.validate()
            if score < self.best:
                self.best = score
            print(epoch, round(score, 4))


def main():
    data = TensorDataset(torch.randn(48, 5), torch.randn(48))
    held_out = TensorDataset(torch.randn(32, 5), torch.randn(32))
    Trainer(Regressor(), DataLoader(data, 8), DataLoader(held_out, 8)).fit(2)


if __name__ == "__main__":
    main()
