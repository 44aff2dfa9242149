import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(10, 8)
        self.mu = nn.Linear(8, 3)
        self.logvar = nn.Linear(8, 3)
        self.dec = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 10))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


dist.init_process_group("gloo")
vae = DDP(VAE())
adam = torch.optim.Adam(vae.parameters(), lr=1e-3)
torch.manual_seed(dist.get_rank())
for epoch in range(2):
    for batch in torch.randn(3, 4, 10):
        adam.zero_grad()
        recon, mu, logvar = vae(batch)
        rec_loss = (recon - batch).pow(2).mean()
        kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).mean()
        rec_loss.backward(retain_graph=True)
        kld.backward()  # TAPE601
        adam.step()
