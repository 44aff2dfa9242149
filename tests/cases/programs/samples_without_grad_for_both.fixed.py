import torch
from torch import nn

gen, disc = nn.Linear(4, 2), nn.Linear(2, 1)
gen_optim = torch.optim.RMSprop(gen.parameters(), lr=5e-5)
disc_optim = torch.optim.RMSprop(disc.parameters(), lr=5e-5)


def sample(n):
    return torch.tanh(gen(torch.randn(n, 4)))


for iteration in range(6):
    fake, real = sample(8), torch.rand(8, 2)
    disc_optim.zero_grad()
    (disc(fake.detach()).mean() - disc(real).mean()).backward()
    disc_optim.step()

    gen_optim.zero_grad()
    gen_loss = -disc(fake).mean()
    gen_loss.backward()
    gen_optim.step()
