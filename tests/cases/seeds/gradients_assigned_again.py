import torch

model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

# Input data
x = torch.randn(1, 10)
y = torch.randn(1, 1)

# Forward pass
output = model(x)

# Loss calculation
loss = torch.nn.MSELoss()(output, y)

# First backward pass
loss.backward()
gradients = [p.grad.clone().detach() for p in model.parameters()]
optimizer.step()
optimizer.zero_grad()

# No second backward pass: the gradients are assigned again
for i, p in enumerate(model.parameters()):
    p.grad = gradients[i]

optimizer.step()
optimizer.zero_grad()
