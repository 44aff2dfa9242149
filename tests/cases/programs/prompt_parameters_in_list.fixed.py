import torch
from torch import nn


class PromptedEncoder(nn.Module):
    def __init__(self, depth=2, dim=8, prompts=3):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(dim, 2, 16, batch_first=True) for _ in range(depth)])
        self.prompts = nn.ParameterList([nn.Parameter(torch.randn(prompts, dim)) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        for layer, prompt in zip(self.layers, self.prompts):
            tokens = torch.cat([prompt.expand(tokens.size(0), -1, -1), tokens], dim=1)
            tokens = layer(tokens)
        return self.norm(tokens).mean(1)


encoder = PromptedEncoder()
classifier = nn.Linear(8, 2)
optimizer = torch.optim.AdamW([*encoder.parameters(), *classifier.parameters()], lr=1e-4)
for step in range(3):
    logits = classifier(encoder(torch.randn(4, 5, 8)))
    loss = nn.functional.cross_entropy(logits, torch.randint(0, 2, (4,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
