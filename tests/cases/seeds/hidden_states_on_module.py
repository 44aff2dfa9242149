import torch
import torch.nn as nn
import torch.nn.functional as F


class SessionModel(nn.Module):
    def __init__(self, items, size):
        super().__init__()
        self.embed = nn.Embedding(items, size)
        self.gru = nn.GRU(size, size)
        self.output = nn.Linear(size, items)
        self.rnn_states = torch.zeros(3, size)

    def forward(self, item):
        state = self.rnn_states[-1].view(1, 1, -1)
        _, state = self.gru(self.embed(item).view(1, 1, -1), state)
        self.rnn_states = torch.cat((self.rnn_states[1:], state.view(1, -1)))
        return self.output(state.view(1, -1))


model = SessionModel(items=20, size=6)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
clicks = torch.randint(20, (8,))

for current, following in zip(clicks[:-1], clicks[1:]):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(current), following.view(1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
