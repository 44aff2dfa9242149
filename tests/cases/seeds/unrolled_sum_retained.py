import torch
from torch.autograd import Variable as V

# Random training data
X = V(torch.randn(100, 1))
Y = V(torch.randn(100, 1))

nGD = 10        # number of gradient descent iterations
nTime = 5       # number of unrolling time steps

# Initialize things
gamma = 0.1
w = V(torch.randn(1, 1), requires_grad=True)
Yest = V(0.5 * torch.ones(100, 1))

for iGD in range(nGD):
    for iTime in range(nTime):
        Yest = Yest + w*X
    cost = torch.mean((Y - Yest)**2)
    cost.backward(retain_graph=True)
    w.data -= gamma * w.grad.data
    w.grad.data.zero_()
