import torch

target = torch.randn(3, 8)
image = torch.zeros(3, 8, requires_grad=True)
optimizer = torch.optim.LBFGS([image])
run = [0]
while run[0] <= 20:

    def closure():
        optimizer.zero_grad()
        loss = (image - target).pow(2).sum()
        loss.backward()
        run[0] += 1
        return loss

    optimizer.step(closure)
