"""A graph convolution that classifies the nodes of a club: messages by index_add, attention over neighbours."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(18)
COUNT = 20
edges = torch.randint(0, COUNT, (2, 60))
edges = torch.cat([edges, edges.flip(0), torch.arange(COUNT).repeat(2, 1)], dim=1)
labels = (torch.arange(COUNT) % 2).long()
known = torch.zeros(COUNT, dtype=torch.bool).scatter_(0, torch.randperm(COUNT)[:8], True)


class GraphAttention(nn.Module):
    def __init__(self, width_in, width_out, heads):
        super().__init__()
        self.linear = nn.Linear(width_in, heads * width_out, bias=False)
        self.towards = nn.Parameter(torch.randn(heads, width_out) * 0.1)
        self.away = nn.Parameter(torch.randn(heads, width_out) * 0.1)
        self.heads, self.width = heads, width_out

    def forward(self, x, edges):
        source, target = edges
        h = self.linear(x).view(-1, self.heads, self.width)
        score = F.leaky_relu((h * self.away).sum(-1)[source] + (h * self.towards).sum(-1)[target], 0.2)
        score = (score - score.max()).exp()
        total = torch.zeros(x.size(0), self.heads).index_add(0, target, score)
        weight = F.dropout(score / total[target].clamp_min(1e-9), 0.3, self.training)
        out = torch.zeros_like(h)
        out.index_add_(0, target, h[source] * weight.unsqueeze(-1))
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(COUNT, 8)
        self.one, self.two = GraphAttention(8, 6, 2), GraphAttention(12, 2, 1)

    def forward(self):
        x = F.elu(self.one(self.embedding.weight, edges))
        return F.log_softmax(self.two(x, edges), dim=1)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.02, weight_decay=5e-4)
for epoch in range(8):
    net.train()
    optimizer.zero_grad()
    loss = F.nll_loss(net()[known], labels[known])
    loss.backward()
    optimizer.step()
    net.eval()
    with torch.no_grad():
        right = (net().argmax(1) == labels)[~known].float().mean().item()
print(loss.item(), right)
