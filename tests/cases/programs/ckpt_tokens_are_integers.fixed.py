import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self, vocabulary=30, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)

    def forward(self, tokens):
        y, _ = self.mix(self.embed(tokens))
        return y[:, -1]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.out = nn.Linear(16, 4)

    def forward(self, tokens):
        pooled = checkpoint(self.encoder, tokens, use_reentrant=False)
        return self.out(pooled)


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    tokens, labels = torch.randint(0, 30, (6, 8)), torch.randint(0, 4, (6,))
    loss = nn.functional.cross_entropy(model(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
