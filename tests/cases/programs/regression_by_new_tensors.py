import torch

torch.manual_seed(0)
features = torch.randn(100, 2)
labels = features @ torch.tensor([2.0, -3.4]) + 4.2

w = torch.zeros(2, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
rate = 0.1

for step in range(30):
    loss = (features @ w + b - labels).pow(2).mean()
    loss.backward()
    w = w - rate * w.grad
    with torch.no_grad():
        b -= rate * b.grad
    b.grad = None
print(w.tolist(), b.item())
