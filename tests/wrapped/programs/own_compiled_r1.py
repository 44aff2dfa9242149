import argparse

import torch
from torch import nn, autograd


def r1_penalty(critic, images):
    images = images.detach().requires_grad_(True)
    scores = critic(images)
    grad, = autograd.grad(outputs=scores.sum(), inputs=images, create_graph=True)
    return grad.square().sum(dim=1).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gamma", type=float, default=10.0)
    args = parser.parse_args([])
    critic = torch.compile(nn.Sequential(nn.Linear(6, 12), nn.Softplus(), nn.Linear(12, 1)), backend="aot_eager")
    opt = torch.optim.Adam(critic.parameters())
    for _ in range(2):
        real = torch.randn(5, 6)
        loss = nn.functional.softplus(-critic(real)).mean() + args.gamma / 2 * r1_penalty(critic, real)
        opt.zero_grad()
        loss.backward()  # TAPE604
        opt.step()


main()
