import torch


def slope(x):
    y = (x**4).sum()
    return torch.autograd.grad(y, x, create_graph=True)[0]


x = torch.tensor([0.5, 1.5, 2.5], requires_grad=True)
gradient = slope(x)
curvature = torch.autograd.grad(gradient.sum(), x)[0]
print(curvature)
