"""A variational autoencoder: reparameterisation, two losses added up over an epoch, annealing, early stopping."""

import math

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)


class VAE(nn.Module):
    def __init__(self, width=20, hidden=24, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.2))
        self.to_mu, self.to_logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.GELU(), nn.Linear(hidden, width))

    def encode(self, x):
        h = self.encoder(x)
        return self.to_mu(h), self.to_logvar(h).clamp(-8, 8)

    @staticmethod
    def reparameterise(mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std).mul_(std)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = self.reparameterise(mu, logvar) if self.training else mu
        return self.decoder(z), mu, logvar


def elbo(logits, x, mu, logvar, beta):
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (reconstruction + beta * divergence) / x.size(0), reconstruction.detach(), divergence.detach()


def run_epoch(model, loader, optimizer=None, beta=1.0):
    model.train(optimizer is not None)
    total = torch.zeros(())
    with torch.set_grad_enabled(optimizer is not None):
        for (x,) in loader:
            logits, mu, logvar = model(x)
            loss, rec, kl = elbo(logits, x, mu, logvar, beta)
            if optimizer:
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 5.0)
                optimizer.step()
            total += rec + kl
    return total.item() / len(loader.dataset)


patterns = (torch.rand(4, 20) > 0.5).float()
data = patterns[torch.randint(0, 4, (48,))]
flips = torch.rand_like(data) < 0.05
data = torch.where(flips, 1 - data, data)
train = DataLoader(TensorDataset(data[:36]), batch_size=12, shuffle=True)
test = DataLoader(TensorDataset(data[36:]), batch_size=12)

model = VAE()
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
best, patience = math.inf, 0
for epoch in range(6):
    trained = run_epoch(model, train, optimizer, beta=min(1.0, epoch / 3))
    tested = run_epoch(model, test)
    scheduler.step()
    print(f"{epoch} {trained!r} {tested!r} {scheduler.get_last_lr()[0]!r}")
    if tested < best:
        best, patience = tested, 0
        kept = {name: value.clone() for name, value in model.state_dict().items()}
    else:
        patience += 1
        if patience == 3:
            break
model.load_state_dict(kept)
