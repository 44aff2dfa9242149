"""Distributions, LBFGS, loss scaling, computed weights, layers and clipping, as torch runs them."""

from itertools import product

PARAMETERS = """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
"""
DISTRIBUTIONS = {
    "Normal": "d = torch.distributions.Normal(mu, sd)\n",
    "Bernoulli": "d = torch.distributions.Bernoulli(logits=mu)\n",
    "Categorical": "d = torch.distributions.Categorical(logits=mu)\n",
    "Transformed": (
        "base = torch.distributions.Normal(mu, sd)\n"
        "d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()])\n"
    ),
    "RelaxedBernoulli": "d = torch.distributions.RelaxedBernoulli(torch.tensor(0.5), logits=mu)\n",
    "Mixture": (
        "mix = torch.distributions.Categorical(logits=mu)\n"
        "d = torch.distributions.MixtureSameFamily(mix, torch.distributions.Normal(mu, sd))\n"
    ),
    "OneHotST": "d = torch.distributions.OneHotCategoricalStraightThrough(logits=mu)\n",
}
SAMPLE_LOG_PROB = "x = d.sample()\nd.log_prob(x).sum().backward()\n"
USES = {
    "sample": "x = d.sample()\nx.sum().backward()\n",
    "sample log_prob": SAMPLE_LOG_PROB,
    "log_prob twice": SAMPLE_LOG_PROB + "d.log_prob(x).sum().backward()\n",
    "rsample": "x = d.rsample()\nx.sum().backward()\n",
    "rsample twice": "d.rsample().sum().backward()\nd.rsample().sum().backward()\n",
    "entropy": "x = d.entropy().sum()\nx.backward()\nx.backward()\n",
}
DISTRIBUTIONS_LEFT_OUT = {
    "rsample": {"Bernoulli", "Categorical", "Mixture"},
    "rsample twice": {"Bernoulli", "Categorical", "Mixture", "RelaxedBernoulli"},
    "entropy": {"Transformed", "RelaxedBernoulli", "Mixture"},
}
"""By use: those that cannot do it, and one that computes its probabilities at first use, which the dry run misses."""
DISTRIBUTIONS_THAT_RUN = {
    "sample log_prob": set(DISTRIBUTIONS),
    "log_prob twice": {"Bernoulli", "RelaxedBernoulli"},
    "rsample": set(DISTRIBUTIONS),
    "rsample twice": set(),
}
"""By use; where torch raises, it does in the last line."""

COMPUTED_WEIGHTS = {
    "spectral_norm": "nn.utils.spectral_norm(nn.Linear(4, 4))",
    "p.spectral_norm": "nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))",
    "weight_norm": "nn.utils.weight_norm(nn.Linear(4, 4))",
}
LAYER_USES = {
    "two forwards": """
net = NET
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "two backwards": """
net = NET
a = net(torch.rand(2, 4)).sum()
a.backward()
a.backward()  # raises
""",
    "weight kept": """
net = NET
w = net.weight
a = net(torch.rand(2, 4)).sum()
a.backward()
w.sum().backward()
""",
    "step between": """
net = NET
opt = torch.optim.SGD(net.parameters(), lr=0.1)
a = net(torch.rand(2, 4)).pow(2).sum()
a.backward(retain_graph=True)
opt.step()
a.backward()  # raises
""",
    "eval two forwards": """
net = NET.eval()
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "eval, one after the other": """
net = NET.eval()
a = net(torch.rand(2, 4)).sum()
a.backward()
b = net(torch.rand(2, 4)).sum()
b.backward()
""",
}


def _sampled(name: str, use: str) -> str:
    program = PARAMETERS + DISTRIBUTIONS[name] + USES[use]
    return program if name in DISTRIBUTIONS_THAT_RUN.get(use, ()) else program.rstrip() + "  # raises\n"


PROGRAMS = {
    **{
        f"{name} {use}": _sampled(name, use)
        for name, use in product(DISTRIBUTIONS, USES)
        if name not in DISTRIBUTIONS_LEFT_OUT.get(use, ())
    },
    **{
        f"{name} {use}": LAYER_USES[use].replace("NET", made)
        for (name, made), use in product(COMPUTED_WEIGHTS.items(), LAYER_USES)
        if (name, use) != ("spectral_norm", "weight kept")
    },
    "kl": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
k = torch.distributions.kl_divergence(torch.distributions.Normal(mu, sd), torch.distributions.Normal(0., 1.)).sum()
k.backward()
k.backward()  # raises
""",
    "kl under fixed prior": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
p = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
k = torch.distributions.kl_divergence(p, p).sum()
k.backward()  # raises
""",
    "policy gradient two losses": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
a = d.sample()
(-d.log_prob(a).sum()).backward(retain_graph=True)
(d.entropy().sum()).backward()
""",
    "lbfgs closure": """
net = nn.Linear(4, 1)
opt = torch.optim.LBFGS(net.parameters(), max_iter=5)
x = torch.rand(8, 4)
def closure():
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss
for _ in range(3):
    opt.step(closure)
""",
    "lbfgs closure outside graph": """
net = nn.Linear(4, 1)
opt = torch.optim.LBFGS(net.parameters(), max_iter=5)
x = torch.rand(8, 4)
loss = net(x).pow(2).mean()
def closure():
    opt.zero_grad()
    loss.backward()  # raises
    return loss
opt.step(closure)
""",
    "lbfgs result": """
net = nn.Linear(4, 1)
opt = torch.optim.LBFGS(net.parameters(), max_iter=2)
x = torch.rand(8, 4)
def closure():
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss
loss = opt.step(closure)
loss.backward()  # raises
""",
    "lbfgs shared features": """
enc = nn.Linear(4, 4)
net = nn.Linear(4, 1)
opt = torch.optim.LBFGS(net.parameters(), max_iter=4)
h = enc(torch.rand(8, 4)).exp()
def closure():
    opt.zero_grad()
    loss = net(h).pow(2).mean()
    loss.backward()  # raises
    return loss
opt.step(closure)
""",
    "scaler": """
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for i in range(3):
    opt.zero_grad()
    loss = net(torch.rand(2, 4)).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
""",
    "scaler twice": """
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
loss = net(torch.rand(2, 4)).pow(2).sum()
scaler.scale(loss).backward()
scaler.step(opt)
scaler.scale(loss).backward()  # raises
""",
    "scaler retain then step stale": """
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
loss = net(torch.rand(2, 4)).pow(2).sum()
scaler.scale(loss).backward(retain_graph=True)
scaler.step(opt)
scaler.scale(loss).backward()  # raises
""",
    "scaler list": """
net = nn.Linear(4, 1)
scaler = torch.amp.GradScaler("cpu")
a = net(torch.rand(2, 4)).pow(2).sum()
b = net(torch.rand(2, 4)).pow(2).sum()
for l in scaler.scale([a, b]):
    l.backward()
a.backward()  # raises
""",
    "scaler grad penalty": """
net = nn.Linear(4, 1)
scaler = torch.amp.GradScaler("cpu")
loss = net(torch.rand(2, 4)).pow(2).sum()
grads = torch.autograd.grad(scaler.scale(loss), net.parameters(), create_graph=True)
inv = 1. / scaler.get_scale()
norm = sum((g * inv).pow(2).sum() for g in grads).sqrt()
scaler.scale(loss + norm).backward()
""",
    "scaler item step": """
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", enabled=False)
loss = net(torch.rand(2, 4)).pow(2).sum()
scaler.scale(loss).backward()
scaler.step(opt)
scaler.update()
loss.backward()  # raises
""",
    "remove_weight_norm": """
net = nn.utils.weight_norm(nn.Linear(4, 4))
nn.utils.remove_weight_norm(net)
a = net(torch.rand(2, 4)).sum()
a.backward()
""",
    "register_parametrization": """
class Sym(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)
net = nn.Linear(4, 4)
nn.utils.parametrize.register_parametrization(net, "weight", Sym())
a = net(torch.rand(2, 4)).sum()
a.backward()
a.backward()  # raises
""",
    "register_parametrization exp": """
class Pos(nn.Module):
    def forward(self, x):
        return x.exp()
net = nn.Linear(4, 4)
nn.utils.parametrize.register_parametrization(net, "weight", Pos())
a = net(torch.rand(2, 4)).sum()
a.backward()
a.backward()  # raises
""",
    "weight_norm deleted weight in optimizer": """
net = nn.utils.weight_norm(nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    opt.zero_grad()
    net(torch.rand(2, 4)).pow(2).sum().backward()
    opt.step()
""",
    "clip norm result": """
net = nn.Linear(4, 1)
net(torch.rand(2, 4)).sum().backward()
n = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
n.backward()  # raises
""",
    "clip norm with graph": """
net = nn.Linear(4, 1)
net(torch.rand(2, 4)).pow(2).sum().backward(create_graph=True)
n = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
n.backward()  # raises
""",
    "clip value changes grad": """
w = torch.rand(4, requires_grad=True)
(w ** 2).sum().backward()
g = w.grad
v = torch.rand(4, requires_grad=True)
loss = (v * g).sum()
nn.utils.clip_grad_value_([w], 0.1)
loss.backward()  # raises
""",
    "clip norm changes grad": """
w = torch.rand(4, requires_grad=True)
(w ** 2).sum().backward()
g = w.grad
v = torch.rand(4, requires_grad=True)
loss = (v * g).sum()
nn.utils.clip_grad_norm_([w], 0.1)
loss.backward()  # raises
""",
    "get_total_norm": """
net = nn.Linear(4, 1)
net(torch.rand(2, 4)).pow(2).sum().backward()
n = nn.utils.get_total_norm([p.grad for p in net.parameters()])
n.backward()  # raises
""",
    "clip_grads_with_norm": """
net = nn.Linear(4, 1)
net(torch.rand(2, 4)).pow(2).sum().backward()
n = nn.utils.get_total_norm([p.grad for p in net.parameters()])
nn.utils.clip_grads_with_norm_(net.parameters(), 1.0, n)
n.backward()  # raises
""",
    "zero_grad changes grad": """
w = torch.rand(4, requires_grad=True)
(w ** 2).sum().backward()
g = w.grad
v = torch.rand(4, requires_grad=True)
loss = (v * g).sum()
torch.optim.SGD([w], lr=0.1).zero_grad(set_to_none=False)
loss.backward()  # raises
""",
    "accumulated grad changes": """
w = torch.rand(4, requires_grad=True)
(w ** 2).sum().backward()
g = w.grad
v = torch.rand(4, requires_grad=True)
loss = (v * g).sum()
(w ** 2).sum().backward()
loss.backward()  # raises
""",
    "vector_to_parameters": """
net = nn.Linear(4, 4)
v = nn.utils.parameters_to_vector(net.parameters())
loss = net(net(torch.rand(2, 4))).sum()
nn.utils.vector_to_parameters(torch.rand(20), net.parameters())
loss.backward()
""",
    "parameters_to_vector": """
net = nn.Linear(4, 4)
v = nn.utils.parameters_to_vector(net.parameters())
l = v.pow(2).sum()
l.backward()
l.backward()  # raises
""",
    "index of data made under no_grad": """
w = torch.rand(1, requires_grad=True)
x = torch.rand(4, 4)
with torch.no_grad():
    a = x[0]
a.mul_(w)  # raises
""",
    "custom function two outputs in place": """
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3
    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 3
w = torch.rand(4, requires_grad=True)
a, b = Two.apply(w)
a.add_(1)
(a + b).sum().backward()
""",
}
