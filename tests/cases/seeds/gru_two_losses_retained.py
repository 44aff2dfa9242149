import torch
import torch.nn as nn

input_size, hidden_size, learning_rate, num_epochs = 4, 3, 0.01, 2
loss_function1 = nn.MSELoss()
loss_function2 = nn.L1Loss()
data_loader = [(torch.randn(5, 2, input_size), torch.randn(5, 2, 2 * hidden_size)) for _ in range(3)]

gru = nn.GRU(input_size, hidden_size, bidirectional=True)
optimizer = torch.optim.Adam(gru.parameters(), lr=learning_rate)

for epoch in range(num_epochs):
    for input_seq, target in data_loader:
        optimizer.zero_grad()
        output, _ = gru(input_seq)
        loss1 = loss_function1(output, target)
        loss1.backward(retain_graph=True)
        optimizer.step()
        loss2 = loss_function2(output, target)
        loss2.backward()
        optimizer.step()
