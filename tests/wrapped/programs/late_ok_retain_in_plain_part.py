import torch
from torch import nn

encoder = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh()), backend="aot_eager")
head_a, head_b = nn.Linear(8, 2), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *head_a.parameters(), *head_b.parameters()], lr=0.1)
for i in range(2):
    z = encoder(torch.randn(6, 4))
    cut = z.detach().requires_grad_()
    loss_a, loss_b = head_a(cut).pow(2).mean(), head_b(cut).pow(2).mean()
    optimizer.zero_grad()
    loss_a.backward()
    loss_b.backward()
    z.backward(cut.grad)
    optimizer.step()
