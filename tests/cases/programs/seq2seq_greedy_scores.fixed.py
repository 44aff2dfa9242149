import torch
from torch import nn

BOS, VOCAB, HIDDEN = 1, 20, 16


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, source):
        _, state = self.rnn(self.embed(source))
        return state


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.rnn = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens, state):
        y, state = self.rnn(self.embed(tokens), state)
        return self.out(y), state


def train(encoder, decoder, pairs, epochs=2):
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(params, lr=1e-2)
    for _ in range(epochs):
        for source, target in pairs:
            logits, _ = decoder(target[:, :-1], encoder(source))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def evaluate(encoder, decoder, pairs):
    encoder.eval()
    decoder.eval()
    right = words = 0
    with torch.no_grad():
        for source, target in pairs:
            state = encoder(source)
            token = torch.full((len(source), 1), BOS)
            for position in range(1, target.size(1)):
                logits, state = decoder(token, state)
                token = logits.argmax(-1)
                right += (token[:, 0] == target[:, position]).sum().item()
                words += len(source)
    return right / words


encoder, decoder = Encoder(), Decoder()
pairs = [(torch.randint(2, VOCAB, (4, 6)), torch.randint(2, VOCAB, (4, 5))) for _ in range(4)]
train(encoder, decoder, pairs)
print(evaluate(encoder, decoder, pairs))
