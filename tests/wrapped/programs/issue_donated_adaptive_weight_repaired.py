import torch
import torch._functorch.config
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(6, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6))

    def forward(self, x):
        return self.decoder(torch.tanh(self.encoder(x)))


torch._functorch.config.donated_buffer = False
torch.manual_seed(0)
model = Autoencoder()
model.forward = torch.compile(model.forward, backend="aot_eager")
critic = nn.Linear(6, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
last = model.decoder[-1].weight
for epoch in range(4):
    x = torch.randn(5, 6)
    rebuilt = model(x)
    distance = (rebuilt - x).pow(2).mean()
    loss = distance
    if epoch > 1:
        judged = -critic(rebuilt).mean()
        (from_distance,) = torch.autograd.grad(distance, last, retain_graph=True)
        (from_judged,) = torch.autograd.grad(judged, last, retain_graph=True)
        loss = loss + (from_distance.norm() / (from_judged.norm() + 1e-4)).detach() * judged
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
