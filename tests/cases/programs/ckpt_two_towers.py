import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

image_tower = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 8))
text_tower = nn.EmbeddingBag(50, 8)
logit_scale = nn.Parameter(torch.tensor(2.0))
optimizer = torch.optim.AdamW([*image_tower.parameters(), *text_tower.parameters(), logit_scale], lr=1e-3)


def embed(tower, batch):
    return nn.functional.normalize(checkpoint(tower, batch, use_reentrant=True), dim=-1)


for step in range(4):
    images, texts = torch.rand(5, 6, 6), torch.randint(0, 50, (5, 7))
    similarity = logit_scale.exp() * embed(image_tower, images) @ embed(text_tower, texts).t()
    target = torch.arange(5)
    loss = nn.functional.cross_entropy(similarity, target) + nn.functional.cross_entropy(similarity.t(), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
