import torch
from torch import nn

net = nn.Conv2d(1, 4, 3).requires_grad_(False)
picture = torch.rand(1, 1, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([picture], lr=0.05)
target = net(torch.rand(1, 1, 8, 8))
for step in range(4):
    content = (net(picture) - target).pow(2).mean()
    smooth = (picture[..., 1:] - picture[..., :-1]).abs().mean()
    loss = content + 0.1 * smooth
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
