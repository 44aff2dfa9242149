import torch
from torch import nn

encoder, decoder, codebook = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(10, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *codebook.parameters()])
for step in range(4):
    x = torch.randn(9, 6)
    z = encoder(x)
    index = torch.cdist(z, codebook.weight).argmin(1)
    q = codebook(index)
    commitment = (z - q.detach()).pow(2).mean()
    codes = (q - z.detach()).pow(2).mean()
    straight = z + (q - z).detach()
    loss = (decoder(straight) - x).pow(2).mean() + codes + 0.25 * commitment
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
