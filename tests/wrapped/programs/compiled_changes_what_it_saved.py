import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = nn.LSTM(4, 4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        hidden = torch.tanh(self.memory(x)[0])
        hidden.relu_()
        return self.out(hidden)


model = torch.compile(Net(), backend="aot_eager")
loss = model(torch.randn(5, 4)).mean()
loss.backward()  # TAPE102
