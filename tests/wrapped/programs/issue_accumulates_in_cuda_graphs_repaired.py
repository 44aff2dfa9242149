"""The same, where one mark stands before the passes that are added up."""

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.GELU())
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    model = torch.compile(Regressor().to(DEVICE), fullgraph=True, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch in range(6):
        if batch % 2 == 0:
            torch.compiler.cudagraph_mark_step_begin()
        inputs = torch.randn(8, 6, device=DEVICE)
        predicted = model(inputs).clone()
        loss = (predicted - inputs[:, :1]).pow(2).mean() / 2
        loss.backward()
        if batch % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()


main()
