import torch
from torch import nn

model = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(6, 4)
with torch.no_grad():
    print(model(x).mean())
seen = []
for module in model.modules():
    if isinstance(module, nn.Linear):
        module.register_forward_hook(lambda module, args, output: seen.append(output.exp().mean()))
for step in range(2):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    for penalty in seen:
        penalty.backward()  # TAPE603
    optimizer.step()
