import torch
import torch.nn as nn

# Network 1
net1 = nn.Linear(10, 5)
input1 = torch.randn(1, 10)
output1 = net1(input1)
loss1 = output1.mean()
loss1.backward()

# Network 2
net2 = nn.Linear(5, 2)
input2 = torch.randn(1, 5)
output2 = net2(input2)
loss2 = output2.mean()
loss2.backward()
