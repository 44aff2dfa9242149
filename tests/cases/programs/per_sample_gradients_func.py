import torch
from torch import nn
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loss_of(parameters, x, y):
    logits = functional_call(model, parameters, (x.unsqueeze(0),))
    return nn.functional.cross_entropy(logits, y.unsqueeze(0))


per_sample = vmap(grad(loss_of), in_dims=(None, 0, 0))
for step in range(4):
    x, y = torch.randn(6, 5), torch.randint(0, 2, (6,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()

norms = []
for _ in range(3):
    x, y = torch.randn(6, 5), torch.randint(0, 2, (6,))
    gradients = per_sample(dict(model.named_parameters()), x, y)
    norms.append(sum(g.flatten(1).norm(dim=1) for g in gradients.values()).max().item())
print(norms)
