import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, width, depth, d=8, classes=4):
        super().__init__()
        dims = [d] + [width] * depth
        self.stages = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.head = nn.Linear(width, classes)

    def forward(self, x, return_features=False):
        feats = []
        for s in self.stages:
            x = F.relu(s(x))
            feats.append(x)
        logits = self.head(x)
        return (logits, feats) if return_features else logits


class Hint(nn.Module):
    """Match normalised intermediate activations."""

    def __init__(self, pairs):
        super().__init__()
        self.pairs = pairs

    @staticmethod
    def similarity(f):
        f = F.normalize(f.flatten(1), dim=1)
        return f @ f.t()

    def forward(self, teacher_feats, student_feats):
        terms = []
        for ti, si in self.pairs:
            target = self.similarity(student_feats[si]).detach()
            terms.append(F.mse_loss(self.similarity(teacher_feats[ti]), target))
        return torch.stack(terms).mean()


class SoftTarget(nn.Module):
    def __init__(self, T=3.0):
        super().__init__()
        self.T = T

    def forward(self, s, t):
        return F.kl_div((s / self.T).log_softmax(-1), (t / self.T).softmax(-1), reduction="batchmean") * self.T ** 2


class Distiller:
    def __init__(self, teacher, student, weights):
        self.teacher, self.student = teacher.eval(), student
        self.teacher.requires_grad_(False)
        self.soft, self.hint = SoftTarget(), Hint([(2, 1)])
        self.weights = weights
        self.opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)

    def losses(self, x, y):
        t_logits, t_feats = self.teacher(x, return_features=True)
        s_logits, s_feats = self.student(x, return_features=True)
        return {
            "ce": F.cross_entropy(s_logits, y),
            "soft": self.soft(s_logits, t_logits),
            "hint": self.hint(t_feats, s_feats),
        }

    def step(self, x, y):
        parts = self.losses(x, y)
        loss = sum(self.weights[k] * v for k, v in parts.items())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return {k: round(v.item(), 4) for k, v in parts.items()}


WEIGHTS = {"ce": 1.0, "soft": 0.5, "hint": 20.0}

if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(32, 8)
    y = x[:, :4].argmax(1)
    d = Distiller(Backbone(16, 3), Backbone(6, 2), WEIGHTS)
    for step in range(5):
        i = (step * 8) % 32
        print(step, d.step(x[i:i + 8], y[i:i + 8]))
