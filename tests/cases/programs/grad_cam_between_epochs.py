import torch
from torch import nn

conv, head = nn.Conv2d(1, 4, 3), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*conv.parameters(), *head.parameters()])
seen = {}
conv.register_forward_hook(lambda module, args, output: seen.update(maps=output))
conv.register_full_backward_hook(lambda module, given, got: seen.update(grads=got[0]))


def forward(x):
    return head(conv(x).relu().mean((2, 3)))


for epoch in range(3):
    for _ in range(2):
        optimizer.zero_grad()
        nn.functional.cross_entropy(forward(torch.randn(3, 1, 6, 6)), torch.randint(0, 2, (3,))).backward()
        optimizer.step()
    forward(torch.randn(1, 1, 6, 6))[0].max().backward()
    heat = (seen["maps"].detach() * seen["grads"].mean((2, 3), keepdim=True)).sum(1).relu()
    optimizer.zero_grad()
    print(heat.shape)
