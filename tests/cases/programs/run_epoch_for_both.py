import torch
from torch import nn

VOCAB, CLASSES = 40, 4


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(VOCAB, 16)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, CLASSES))

    def forward(self, tokens):
        return self.head(self.table(tokens))


def run_epoch(model, batches, optimizer=None):
    model.train(optimizer is not None)
    total, hits, seen = 0.0, 0, 0
    for tokens, target in batches:
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits, target)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
        hits += int((logits.argmax(-1) == target).sum())
        seen += len(target)
    return total / len(batches), hits / seen


def batches(count):
    return [(torch.randint(0, VOCAB, (12, 9)), torch.randint(0, CLASSES, (12,))) for _ in range(count)]


model = Bag()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
train, valid = batches(5), batches(3)
for epoch in range(2):
    train_loss, _ = run_epoch(model, train, optimizer)
    valid_loss, accuracy = run_epoch(model, valid)
    print(f"{epoch} {train_loss:.3f} {valid_loss:.3f} {accuracy:.2f}")
