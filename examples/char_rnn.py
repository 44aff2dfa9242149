"""A character model trained on consecutive pieces of one text: the hidden state goes from piece to piece."""

import torch
from torch import nn

TEXT = "the graph is built on the way forward and freed on the way back. " * 20
SYMBOLS = sorted(set(TEXT))
PIECE = 16


class CharRNN(nn.Module):
    def __init__(self, symbols, size=48):
        super().__init__()
        self.embed = nn.Embedding(symbols, size)
        self.lstm = nn.LSTM(size, size, batch_first=True)
        self.head = nn.Linear(size, symbols)

    def forward(self, piece, state):
        output, state = self.lstm(self.embed(piece), state)
        return self.head(output), state


def main():
    torch.manual_seed(0)
    codes = torch.tensor([SYMBOLS.index(symbol) for symbol in TEXT])
    model = CharRNN(len(SYMBOLS))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(2):
        state = None
        for start in range(0, len(codes) - PIECE - 1, PIECE):
            piece = codes[start : start + PIECE].unsqueeze(0)
            following = codes[start + 1 : start + PIECE + 1]
            scores, state = model(piece, state)
            loss = criterion(scores.squeeze(0), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
