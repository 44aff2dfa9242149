import torch
from torch import nn

encoder = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
triplet = nn.TripletMarginLoss(margin=0.5)


@torch.no_grad()
def embed_all(batches):
    encoder.eval()
    rows, labels = [], []
    for x, y in batches:
        z = nn.functional.normalize(encoder(x), dim=1)
        rows.append(z.detach().cpu())
        labels.append(y)
    encoder.train()
    return torch.cat(rows), torch.cat(labels)


def probe(gallery, queries):
    keys, key_labels = embed_all(gallery)
    found, wanted = embed_all(queries)
    nearest = (found @ keys.t()).argmax(1)
    return (key_labels[nearest] == wanted).float().mean().item()


def batches(count):
    return [(torch.randn(10, 12), torch.randint(0, 3, (10,))) for _ in range(count)]


gallery, queries = batches(4), batches(3)
for epoch in range(2):
    for _ in range(5):
        anchor, positive, negative = torch.randn(3, 10, 12).unbind(0)
        loss = triplet(encoder(anchor), encoder(positive), encoder(negative))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, probe(gallery, queries))
