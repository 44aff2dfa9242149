"""Skip-gram with negative sampling: sparse gradients, two optimizers, a data set of its own, a loader in a process."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(17)
sentence = "we few we happy few we band of brothers for he today that sheds his blood with me shall be my brother".split()


class Pairs(Dataset):
    def __init__(self, words, window=2):
        self.words = sorted(set(words))
        self.index = {word: number for number, word in enumerate(self.words)}
        self.pairs = [
            (self.index[words[i]], self.index[words[j]])
            for i in range(len(words))
            for j in range(max(0, i - window), min(len(words), i + window + 1))
            if i != j
        ]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, number):
        return torch.tensor(self.pairs[number])


class SkipGram(nn.Module):
    def __init__(self, count, width=8):
        super().__init__()
        self.inside = nn.Embedding(count, width, sparse=True)
        self.outside = nn.Embedding(count, width, sparse=True)
        self.bias = nn.Parameter(torch.zeros(count))

    def forward(self, centre, context, negatives):
        v = self.inside(centre)
        good = (v * self.outside(context)).sum(1) + self.bias[context]
        bad = torch.bmm(self.outside(negatives), v.unsqueeze(2)).squeeze(2)
        return -(nn.functional.logsigmoid(good) + nn.functional.logsigmoid(-bad).sum(1)).mean()


def main():
    data = Pairs(sentence)
    model = SkipGram(len(data.words))
    sparse = torch.optim.SparseAdam([model.inside.weight, model.outside.weight], lr=1e-2)
    dense = torch.optim.Adagrad([model.bias], lr=1e-2)
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=1)
    for epoch in range(2):
        total = 0.0
        for batch in loader:
            centre, context = batch.unbind(1)
            loss = model(centre, context, torch.randint(0, len(data.words), (len(batch), 3)))
            sparse.zero_grad(), dense.zero_grad()
            loss.backward()
            sparse.step(), dense.step()
            total += loss.item()
        print(epoch, repr(total))
    return model


if __name__ == "__main__":
    model = main()
