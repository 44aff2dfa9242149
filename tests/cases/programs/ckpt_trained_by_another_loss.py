import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

encoder, decoder, probe = nn.Linear(6, 4), nn.Linear(4, 6), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *probe.parameters()])
for step in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
    reconstruction = (decoder(encoder(x)) - x).pow(2).mean()
    # The probe is not to move the encoder.
    fixed = checkpoint(encoder, x, use_reentrant=True)
    loss = reconstruction + nn.functional.cross_entropy(probe(fixed), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
