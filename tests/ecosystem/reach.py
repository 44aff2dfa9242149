"""Programs that come to tensors in roundabout ways, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

REACH = {
    "a penalty whose weight nobody knows": Program(
        """\
class WGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.D = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
        self.opt = torch.optim.Adam(self.D.parameters())

    def penalty(self, x):
        x = x.detach().requires_grad_()
        g = torch.autograd.grad(self.D(x).sum(), x, retain_graph=True)[0]
        return ((g.norm(2, dim=1) - 1) ** 2).mean()

    def step(self, real):
        loss = -self.D(real).mean() + self.cfg.lambda_gp * self.penalty(real)  # TAPE401
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
""",
        """\
class Cfg:
    lambda_gp = 10.0

WGAN(Cfg()).step(torch.randn(2, 4))
""",
    ),
    "a penalty with a weight out of a dict, and one with create_graph": Program(
        """\
def step(net, opt, x, y, hparams):
    model = nn.Linear(4, 3)
    losses = [F.cross_entropy(model(part), y) for part in (x, x + 1)]
    grads = [torch.autograd.grad(loss, model.weight, retain_graph=True)[0] for loss in losses]
    penalty = (grads[0] - grads[1]).pow(2).sum()
    total = sum(losses) + hparams["penalty"] * penalty  # TAPE401
    opt.zero_grad()
    total.backward()


def right(opt, x, y, hparams):
    model = nn.Linear(4, 3)
    loss = F.cross_entropy(model(x), y)
    (g,) = torch.autograd.grad(loss, model.weight, create_graph=True)
    (loss + hparams["penalty"] * g.pow(2).sum()).backward()
""",
        """\
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(2, 4), torch.tensor([0, 1])
step(net, opt, x, y, {"penalty": 1.0})
right(opt, x, y, {"penalty": 1.0})
""",
    ),
    "gradients compared by their angle": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
images = torch.randn(6, 4, requires_grad=True)
labels = torch.arange(6) % 3
optimizer = torch.optim.SGD([images], lr=0.1)


def distance(ours, theirs):
    total = 0.0
    for a, b in zip(ours, theirs):
        a, b = a.flatten(1) if a.dim() > 1 else a[None], b.flatten(1) if b.dim() > 1 else b[None]
        total = total + (1 - F.cosine_similarity(a, b, dim=1)).sum()
    return total


for _ in range(3):
    params = list(net.parameters())
    real = torch.autograd.grad(F.cross_entropy(net(torch.randn(6, 4)), labels), params)
    made = torch.autograd.grad(F.cross_entropy(net(images), labels), params)
    loss = distance(made, real) + 0.1 * images.abs().mean()  # TAPE401
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a meter gets the loss of a model that was handed in": Program(
        """\
class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, val, n=1):
        self.sum += val * n  # TAPE201
        self.count += n


def train(model, loader, opt):
    losses = AverageMeter()
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        losses.update(loss, x.size(0))
        opt.zero_grad()
        loss.backward()
        opt.step()


def right(model, loader, opt):
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total
""",
        """\
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
batches = [(torch.randn(2, 4), torch.tensor([0, 1]))] * 3
train(net, batches, opt)
right(net, batches, opt)
""",
    ),
    "outputs of a model that was handed in, kept after the backward": Program(
        """\
def train(model, loader, opt):
    outs = []
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        outs.append(out)  # TAPE201
    return len(torch.cat(outs))


def detached(model, loader, opt):
    outs = []
    for x, y in loader:
        out = model(x)
        loss = F.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        outs.append(out.detach())
    return len(torch.cat(outs))


def unproven(model, loader):
    outs = []
    for x, y in loader:
        outs.append(model(x))
    return len(torch.cat(outs))
""",
        """\
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
batches = [(torch.randn(2, 4), torch.tensor([0, 1]))] * 3
train(net, batches, opt)
detached(net, batches, opt)
with torch.no_grad():
    unproven(net, batches)
""",
    ),
    "a Variable of an argument is a new leaf": Program(
        """\
f = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))


def sample(x0):
    x = torch.autograd.Variable(x0, requires_grad=True)
    for _ in range(10):
        g = torch.autograd.grad(f(x).sum(), [x], retain_graph=True)[0]  # TAPE301
        x.data += g + 0.1 * torch.randn_like(x)
    return x.detach()
""",
        "sample(torch.randn(2, 4))\n",
    ),
    "an attack on an input that was handed in": Program(
        """\
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))


def attack(x, y, eps):
    x_adv = x.clone().detach()
    for _ in range(5):
        x_adv.requires_grad_()
        loss = F.cross_entropy(model(x_adv), y)
        grad = torch.autograd.grad(loss, x_adv)[0]
        x_adv = (x_adv.detach() + eps * grad.sign()).clamp(x - eps, x + eps)
    return x_adv


def train(loader, opt, eps):
    for x, y in loader:
        adv = attack(x, y, eps)
        loss = F.cross_entropy(model(adv), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
train([(torch.randn(2, 4), torch.tensor([0, 1]))] * 2, torch.optim.SGD(model.parameters(), lr=0.1), 0.1)
""",
    ),
    "all parameters are frozen by a name that none of them has": Program(
        """\
model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(6)], nn.Linear(4, 2))


def freeze(model, trainable=("fc", "head")):
    for name, param in model.named_parameters():
        if not any(part in name for part in trainable):
            param.requires_grad = False


freeze(model)
F.cross_entropy(model(torch.randn(2, 4)), torch.tensor([0, 1])).backward()  # TAPE103  # raises
""",
    ),
    "all parameters but those of the head": Program(
        """\
model = nn.Sequential()
for i in range(6):
    model.add_module(f"body{i}", nn.Linear(4, 4))
model.add_module("head", nn.Linear(4, 2))
for name, param in model.named_parameters():
    if "head" not in name:
        param.requires_grad = False
F.cross_entropy(model(torch.randn(2, 4)), torch.tensor([0, 1])).backward()
assert model.head.weight.grad is not None
""",
    ),
    "a layer by its name": Program(
        """\
import argparse


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = getattr(nn, kind)(4, 8, 1)
        self.out = nn.Linear(8, 4)

    def forward(self, x, hidden):
        y, hidden = self.rnn(x, hidden)
        return self.out(y), hidden


def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", default="LSTM")
    args = parser.parse_args()
    model = Model(args.kind)
    hidden = (torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
    for _ in range(4):
        hidden = repackage(hidden)
        y, hidden = model(torch.randn(5, 2, 4), hidden)
        loss = y.pow(2).mean()
        loss.backward(retain_graph=True)  # TAPE301
        model.zero_grad()


main()
""",
    ),
    "indices out of topk, scattered": Program(
        """\
net = nn.Linear(4, 6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    logits = net(torch.randn(2, 4))
    chosen = logits.topk(2, dim=1).indices
    mask = torch.zeros_like(logits).scatter(1, chosen, 1.0)
    loss = (mask * logits).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    "a loss of indices alone": Program(
        """\
net = nn.Linear(4, 6)
logits = net(torch.randn(2, 4))
mask = torch.zeros_like(logits).scatter(1, logits.topk(2, dim=1).indices, 1.0)
mask.sum().backward()  # TAPE103  # raises
""",
    ),
    "a penalty on a Jacobian without create_graph": Program(
        """\
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
x = torch.randn(2, 3, requires_grad=True)
def f(a):
    return net(a).pow(2).sum()
j = torch.autograd.functional.jacobian(f, x)
loss = j.pow(2).sum() + net(x).mean()  # TAPE401
loss.backward()
""",
    ),
    "a penalty on a Jacobian with create_graph": Program(
        """\
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
x = torch.randn(2, 3, requires_grad=True)
j = torch.autograd.functional.jacobian(lambda a: net(a).pow(2).sum(), x, create_graph=True)
(j.pow(2).sum() + net(x).mean()).backward()
""",
    ),
    "a hook of a helper that keeps all activations": Program(
        """\
class Store:
    def __init__(self, model):
        self.acts = []
        for m in model.modules():
            if isinstance(m, nn.Linear):
                m.register_forward_hook(self.hook)
    def hook(self, m, i, o):
        self.acts.append(o)  # TAPE201
model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
store = Store(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = model(torch.randn(2, 3)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    "a hook of a helper that is cleared after each step": Program(
        """\
class Store:
    def __init__(self, model):
        self.acts = []
        for m in model.modules():
            if isinstance(m, nn.Linear):
                m.register_forward_hook(self.hook)
    def hook(self, m, i, o):
        self.acts.append(o)
    def reset(self):
        self.acts.clear()
model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
store = Store(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    loss = model(torch.randn(2, 3)).mean() + sum(a.pow(2).mean() for a in store.acts)
    opt.zero_grad()
    loss.backward()
    opt.step()
    store.reset()
""",
    ),
    "an embedding that a cache keeps": Program(
        """\
from functools import lru_cache
emb = nn.Embedding(4, 3)
net = nn.Linear(3, 1)
opt = torch.optim.SGD([*emb.parameters(), *net.parameters()], lr=0.1)
@lru_cache(maxsize=None)
def vector(i):
    return emb(torch.tensor([i])).tanh()
for step in range(4):
    loss = net(vector(1)).mean()
    opt.zero_grad()
    loss.backward()  # TAPE101  # raises
    opt.step()
""",
    ),
    "losses of a criterion and a model that were handed in": Program(
        """\
def train(model, criterion, opt, loader):
    hist = []
    for x, y in loader:
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hist.append(loss)  # TAPE201
    return sum(h.item() for h in hist)
""",
        """\
net = nn.Linear(4, 3)
batches = [(torch.randn(2, 4), torch.tensor([0, 1]))] * 3
train(net, nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1), batches)
""",
    ),
    "both networks of a GAN handed in, the batch detached": Program(
        """\
def train(G, D, criterion, og, od, loader):
    for real in loader:
        z = torch.randn(real.size(0), 8)
        fake = G(z)
        ones, zeros = torch.ones(real.size(0), 1), torch.zeros(real.size(0), 1)
        d = criterion(D(real), ones) + criterion(D(fake.detach()), zeros)
        od.zero_grad()
        d.backward()
        od.step()
        g = criterion(D(fake), ones)
        og.zero_grad()
        g.backward()
        og.step()
""",
        """\
G, D = nn.Sequential(nn.Linear(8, 4), nn.Tanh()), nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
og, od = torch.optim.SGD(G.parameters(), lr=0.1), torch.optim.SGD(D.parameters(), lr=0.1)
train(G, D, nn.BCELoss(), og, od, [torch.randn(2, 4)] * 2)
""",
    ),
    "weights set through data on a model that was handed in": Program(
        """\
def prune(model, masks):
    for name, p in model.named_parameters():
        p.data = p.data * masks[name]
        p.data.mul_(masks[name])
def train(model, masks, loader, opt):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        prune(model, masks)
""",
        """\
net = nn.Linear(4, 3)
masks = {name: torch.ones_like(p) for name, p in net.named_parameters()}
batches = [(torch.randn(2, 4), torch.tensor([0, 1]))] * 3
train(net, masks, batches, torch.optim.SGD(net.parameters(), lr=0.1))
""",
    ),
    "a first-order inner step whose rate nobody knows": Program(
        """\
def adapt(weight, bias, x, y, cfg):
    w, b = weight.clone(), bias.clone()
    inner = (x @ weight + bias - y).pow(2).mean()
    gw, gb = torch.autograd.grad(inner, [weight, bias])
    fw, fb = weight - cfg.lr * gw, bias - cfg.lr * gb
    return (x @ fw + fb - y).pow(2).mean()

def main(cfg):
    weight = torch.randn(3, 1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([weight, bias], lr=0.1)
    for _ in range(3):
        loss = adapt(weight, bias, torch.randn(8, 3), torch.randn(8, 1), cfg)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
class Cfg:
    lr = 0.1
main(Cfg())
""",
    ),
    "an attack whose strength nobody knows": Program(
        """\
def attack(model, x, y, cfg):
    x = x.detach().requires_grad_()
    g = torch.autograd.grad(F.cross_entropy(model(x), y), x)[0]
    return x + cfg.eps * g.sign()

def train(cfg):
    model = nn.Linear(4, 3)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(2, 4), torch.tensor([0, 1])
    for _ in range(3):
        loss = F.cross_entropy(model(attack(model, x, y, cfg)), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
class Cfg:
    eps = 0.1
train(Cfg())
""",
    ),
    "a loss weighted by the norms of gradients": Program(
        """\
def train(cfg):
    net, a, b = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 1)
    params = [*net.parameters(), *a.parameters(), *b.parameters()]
    opt = torch.optim.SGD(params, lr=0.1)
    for _ in range(3):
        h = net(torch.randn(2, 4)).tanh()
        la, lb = a(h).pow(2).mean(), b(h).pow(2).mean()
        na = torch.autograd.grad(la, net.weight, retain_graph=True)[0].norm()
        nb = torch.autograd.grad(lb, net.weight, retain_graph=True)[0].norm()
        loss = la + cfg.w * (na / (nb + 1e-8)) * lb
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
class Cfg:
    w = 0.1
train(Cfg())
""",
    ),
    "momentum by hand with unknown numbers": Program(
        """\
def train(cfg, model, loader):
    momentum = [torch.zeros_like(p) for p in model.parameters()]
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g, m in zip(model.parameters(), grads, momentum):
                m.mul_(cfg.beta).add_(g)
                p.sub_(cfg.lr * m)
""",
        """\
class Cfg:
    beta, lr = 0.9, 0.1
train(Cfg(), nn.Linear(4, 3), [(torch.randn(2, 4), torch.tensor([0, 1]))] * 3)
""",
    ),
    "samples that are moved by gradients": Program(
        """\
def sample(f, x, cfg):
    x = x.clone().detach().requires_grad_(True)
    for _ in range(cfg.steps):
        g = torch.autograd.grad(f(x).sum(), [x])[0]
        x = x.detach() + cfg.step * g + cfg.noise * torch.randn_like(x)
        x.requires_grad_(True)
    return x.detach()

def train(cfg):
    f = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    opt = torch.optim.SGD(f.parameters(), lr=0.1)
    for _ in range(3):
        real = torch.randn(2, 4)
        loss = f(sample(f, real, cfg)).mean() - f(real).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
""",
        """\
class Cfg:
    steps, step, noise = 3, 0.1, 0.1
train(Cfg())
""",
    ),
    "a guard beyond a length that is only printed": Program(
        """\
class Meta(nn.Module):
    def __init__(self, n_way):
        super().__init__()
        self.net = nn.Linear(3, 1)
        self.n_task = 4
        self.n_way = n_way

    def train_loop(self, loader, optimizer):
        count = 0
        losses = []
        for i, (x, _) in enumerate(loader):
            assert self.n_way == x.size(0)
            loss = self.net(x).mean()
            losses.append(loss)
            count += 1
            if count == self.n_task:
                torch.stack(losses).sum(0).backward()
                optimizer.step()
                count = 0
                losses = []
            optimizer.zero_grad()
            if i % 10 == 0:
                print("{:d}/{:d}".format(i, len(loader)))
""",
        """\
meta = Meta(2)
meta.train_loop([(torch.randn(2, 3), 0)] * 9, torch.optim.SGD(meta.parameters(), lr=0.1))
""",
    ),
}
