"""pytorch/pytorch #170604: the output of a call in CUDA graphs is read after the next call."""

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(DEVICE)


@torch.compile(mode="reduce-overhead")
def embed(x):
    return nn.functional.normalize(encoder(x), dim=-1)


@torch.no_grad()
def similarity(first, second):
    left = embed(first)
    right = embed(second)
    return (left * right).sum(dim=-1)  # TAPE610


for _ in range(3):
    scores = similarity(torch.randn(4, 5, device=DEVICE), torch.randn(4, 5, device=DEVICE))
    print(scores.mean().item())
