"""Learning without labels: two views, an online and a slowly moving target network, a predictor between them."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(15)
torch.set_num_threads(2)


def mlp(width_in, hidden, width_out):
    return nn.Sequential(nn.Linear(width_in, hidden), nn.BatchNorm1d(hidden), nn.ReLU(True), nn.Linear(hidden, width_out))


class BYOL(nn.Module):
    def __init__(self, encoder, width, momentum=0.95):
        super().__init__()
        self.online = nn.Sequential(encoder, mlp(width, 32, 8))
        self.target = copy.deepcopy(self.online)
        self.predictor = mlp(8, 16, 8)
        self.momentum = momentum
        for p in self.target.parameters():
            p.requires_grad = False

    @torch.no_grad()
    def move_target(self):
        for ours, theirs in zip(self.online.parameters(), self.target.parameters()):
            theirs.data = theirs.data * self.momentum + ours.data * (1.0 - self.momentum)

    def forward(self, one, two):
        predicted = self.predictor(self.online(one)), self.predictor(self.online(two))
        with torch.no_grad():
            wanted = self.target(two), self.target(one)
        return sum(2 - 2 * F.cosine_similarity(p, w.detach(), dim=-1).mean() for p, w in zip(predicted, wanted))


class View:
    def __call__(self, images):
        shifted = torch.roll(images, shifts=int(torch.randint(-2, 3, ())), dims=-1)
        return F.dropout(shifted, 0.2) + 0.05 * torch.randn_like(shifted)


encoder = nn.Sequential(nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.Conv2d(6, 6, 3, 2, 1), nn.AdaptiveAvgPool2d(2), nn.Flatten())
learner, view = BYOL(encoder, 24), View()
optimizer = torch.optim.SGD(
    list(learner.online.parameters()) + list(learner.predictor.parameters()),
    lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4,
)
images = torch.rand(24, 1, 12, 12)
for epoch in range(4):
    for batch in images.split(8):
        loss = learner(view(batch), view(batch))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        learner.move_target()
    print(epoch, loss.item())
