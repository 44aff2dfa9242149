import torch

split = torch.compile(lambda x: x.unbind(0), backend="aot_eager")
x = torch.randn(2, 3, requires_grad=True)
first, second = split(x)
first.sum().backward()
second.sum().backward()  # TAPE603
