"""A small GPT: causal attention, weight decay by group, accumulated gradients, warm-up, activation checkpoints."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@dataclass
class Config:
    vocabulary: int = 17
    context: int = 12
    width: int = 16
    heads: int = 2
    layers: int = 2
    dropout: float = 0.1
    micro_batches: int = 2
    steps: int = 4
    recompute: bool = True


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.out = nn.Linear(config.width, config.width, bias=False)
        self.heads, self.dropout = config.heads, nn.Dropout(config.dropout)
        mask = torch.tril(torch.ones(config.context, config.context, dtype=torch.bool))
        self.register_buffer("mask", mask.view(1, 1, config.context, config.context))

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        weights = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        weights = weights.masked_fill(~self.mask[:, :, :length, :length], float("-inf"))
        weights = self.dropout(F.softmax(weights, dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(rows, length, width))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.before, self.between = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.tokens.weight = self.head.weight
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, targets=None):
        place = torch.arange(tokens.size(1))
        x = self.tokens(tokens) + self.positions(place)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.config.recompute and self.training else layer(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def optimizer(self, lr):
        decayed = [p for p in self.parameters() if p.dim() >= 2]
        others = [p for p in self.parameters() if p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def rate(step, warm=2, total=4, top=3e-3):
    if step < warm:
        return top * (step + 1) / warm
    return top * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))


def main():
    torch.manual_seed(6)
    config = Config()
    model = GPT(config)
    optimizer = model.optimizer(lr=3e-3)
    stream = torch.randint(0, config.vocabulary, (400,))
    for step in range(config.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad(set_to_none=True)
        for micro in range(config.micro_batches):
            starts = torch.randint(0, 400 - config.context - 1, (4,))
            x = torch.stack([stream[s : s + config.context] for s in starts])
            y = torch.stack([stream[s + 1 : s + 1 + config.context] for s in starts])
            _, loss = model(x, y)
            (loss / config.micro_batches).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item()!r} norm {norm.item()!r}")
    return model


model = main() if __name__ == "__main__" else None
