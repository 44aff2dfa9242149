"""A Wasserstein GAN with gradient penalty on a two-dimensional mixture; several critic steps for each of the generator."""

import argparse

import torch
from torch import autograd, nn

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--critic-steps", type=int, default=3)
parser.add_argument("--penalty", type=float, default=10.0)
options = parser.parse_args([])
torch.manual_seed(2)

critic = nn.Sequential(nn.Linear(2, 32), nn.Softplus(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1))
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
critic_opt = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
gen_opt = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
centres = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0]])


def batches(size):
    while True:
        which = torch.randint(0, 4, (size,))
        yield centres[which] + 0.1 * torch.randn(size, 2)


def gradient_penalty(real, fake):
    mix = torch.rand(real.size(0), 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    score = critic(between)
    (slope,) = autograd.grad(
        outputs=score,
        inputs=between,
        grad_outputs=torch.ones_like(score),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


data = batches(16)
for round_number in range(options.rounds):
    for p in critic.parameters():
        p.requires_grad_(True)
    for _ in range(options.critic_steps):
        real = next(data)
        with torch.no_grad():
            fake = generator(torch.randn(real.size(0), 4))
        critic_opt.zero_grad(set_to_none=True)
        wasserstein = critic(fake).mean() - critic(real).mean()
        penalty = options.penalty * gradient_penalty(real, fake)
        (wasserstein + penalty).backward()
        critic_opt.step()
    for p in critic.parameters():
        p.requires_grad_(False)
    gen_opt.zero_grad(set_to_none=True)
    gen_loss = -critic(generator(torch.randn(16, 4))).mean()
    gen_loss.backward()
    gen_opt.step()
    print(round_number, wasserstein.item(), penalty.item(), gen_loss.item())
