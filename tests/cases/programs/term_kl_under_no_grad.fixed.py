import torch
from torch import nn

encoder, decoder = nn.Linear(10, 6), nn.Linear(3, 10)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)

for step in range(4):
    x = torch.rand(12, 10)
    mean, log_var = encoder(x).chunk(2, dim=1)
    z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
    reconstruction = nn.functional.mse_loss(decoder(z), x)
    kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).mean()
    loss = reconstruction + 0.1 * kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
