"""A transformer trained as it should be, in ways that look like mistakes: nothing is to be found here."""

import torch
from torch import nn

VOCABULARY, LENGTH, SIZE = 30, 12, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, SIZE)
        self.position = nn.Parameter(torch.zeros(LENGTH, SIZE))
        layer = nn.TransformerEncoderLayer(SIZE, nhead=4, dim_feedforward=64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.tokens = nn.Linear(SIZE, VOCABULARY)
        self.reversed = nn.Linear(SIZE, VOCABULARY)
        self.register_buffer("mean_feature", torch.zeros(SIZE))

    def forward(self, tokens):
        features = self.encoder(self.embed(tokens) + self.position)
        # The running mean is detached: the buffer must not carry a graph from step to step.
        self.mean_feature = 0.9 * self.mean_feature + 0.1 * features.detach().mean((0, 1))
        return self.tokens(features), self.reversed(features)


def main():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    history = []

    for step in range(15):
        tokens = torch.randint(VOCABULARY, (8, LENGTH))
        same, backwards = model(tokens)
        same_loss = criterion(same.flatten(0, 1), tokens.flatten())
        backwards_loss = criterion(backwards.flatten(0, 1), tokens.flip(1).flatten())

        optimizer.zero_grad()
        # Both losses share the encoder, and both backwards come before the step: here the graph is needed twice.
        same_loss.backward(retain_graph=True)
        backwards_loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        history.append((same_loss + backwards_loss).item())
    print(f"loss {history[0]:.3f} -> {history[-1]:.3f}")


if __name__ == "__main__":
    main()
