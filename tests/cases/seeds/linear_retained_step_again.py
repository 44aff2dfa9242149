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

# Backward pass
loss.backward(retain_graph=True)
optimizer.step()
optimizer.zero_grad()

# Second backward pass
loss.backward()
optimizer.step()
optimizer.zero_grad()
