import torch
from torch import nn

net = nn.Sequential(nn.Linear(7, 20), nn.GELU(), nn.Linear(20, 2))
heads = nn.ModuleList([nn.Linear(2, 3), nn.Linear(2, 1)])
opt_net, opt_heads = torch.optim.AdamW(net.parameters()), torch.optim.SGD(heads.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")

for i in range(8):
    z = net(torch.randn(6, 7))
    loss = (nn.functional.cross_entropy(heads[0](z), torch.randint(0, 3, (6,))) + heads[1](z).pow(2).mean()) / 2
    scaler.scale(loss).backward()
    if (i + 1) % 2 == 0:
        for optimizer in (opt_net, opt_heads):
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([*net.parameters(), *heads.parameters()], 1.0)
        for optimizer in (opt_net, opt_heads):
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
