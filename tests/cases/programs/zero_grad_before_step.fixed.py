import torch
from torch import nn
import torch.nn.functional as F


class TextClassifier(nn.Module):
    def __init__(self, vocab=30, dim=8, classes=3):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab, dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, tokens):
        return self.fc(self.embedding(tokens))


model = TextClassifier()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for batch in range(3):
        tokens, labels = torch.randint(0, 30, (6, 5)), torch.randint(0, 3, (6,))
        loss = F.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
