import torch

theta = torch.zeros(5, requires_grad=True)
optimizer = torch.optim.Adam([theta], lr=0.1)
for generation in range(4):
    noise = torch.randn(20, 5)
    with torch.no_grad():
        reward = -((theta + 0.1 * noise - 1) ** 2).sum(1)
    theta.grad = -(noise * reward.unsqueeze(1)).mean(0) / 0.1
    optimizer.step()
