import torch

x = torch.tensor([-1.0, 2.0], requires_grad=True)
optimizer = torch.optim.LBFGS([x], lr=0.1, max_iter=4)


def closure():
    f = (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2
    f.backward()
    return f


for i in range(3):
    value = optimizer.step(closure)
    print(i, float(value))
