import torch
from torch import nn

encoder, decoder, probe = nn.Linear(8, 4), nn.Linear(4, 8), nn.Linear(4, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *probe.parameters()])
for step in range(4):
    x, kind = torch.randn(10, 8), torch.randint(0, 2, (10,))
    kind_loss = nn.functional.cross_entropy(probe(encoder(x)), kind)
    kind_loss.backward()

    optimizer.zero_grad()
    code = encoder(x)
    rebuild_loss = nn.functional.mse_loss(decoder(code), x) + 0 * probe(code).sum()
    rebuild_loss.backward()
    optimizer.step()
