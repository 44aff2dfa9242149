"""Distributions, LBFGS, loss scaling, computed weights, layers and clipping, as torch runs them."""

PROGRAMS = {
    "Normal sample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
x = d.sample()
x.sum().backward()  # raises
""",
    "Normal sample log_prob": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
x = d.sample()
d.log_prob(x).sum().backward()
""",
    "Normal log_prob twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
x = d.sample()
d.log_prob(x).sum().backward()
d.log_prob(x).sum().backward()  # raises
""",
    "Normal rsample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
x = d.rsample()
x.sum().backward()
""",
    "Normal rsample twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
d.rsample().sum().backward()
d.rsample().sum().backward()  # raises
""",
    "Normal entropy": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Normal(mu, sd)
x = d.entropy().sum()
x.backward()
x.backward()  # raises
""",
    "Bernoulli sample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Bernoulli(logits=mu)
x = d.sample()
x.sum().backward()  # raises
""",
    "Bernoulli sample log_prob": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Bernoulli(logits=mu)
x = d.sample()
d.log_prob(x).sum().backward()
""",
    "Bernoulli log_prob twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Bernoulli(logits=mu)
x = d.sample()
d.log_prob(x).sum().backward()
d.log_prob(x).sum().backward()
""",
    "Bernoulli entropy": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Bernoulli(logits=mu)
x = d.entropy().sum()
x.backward()
x.backward()  # raises
""",
    "Categorical sample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Categorical(logits=mu)
x = d.sample()
x.sum().backward()  # raises
""",
    "Categorical sample log_prob": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Categorical(logits=mu)
x = d.sample()
d.log_prob(x).sum().backward()
""",
    "Categorical log_prob twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Categorical(logits=mu)
x = d.sample()
d.log_prob(x).sum().backward()
d.log_prob(x).sum().backward()  # raises
""",
    "Categorical entropy": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.Categorical(logits=mu)
x = d.entropy().sum()
x.backward()
x.backward()  # raises
""",
    "Transformed sample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
base = torch.distributions.Normal(mu, sd)
d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()])
x = d.sample()
x.sum().backward()  # raises
""",
    "Transformed sample log_prob": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
base = torch.distributions.Normal(mu, sd)
d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()])
x = d.sample()
d.log_prob(x).sum().backward()
""",
    "Transformed log_prob twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
base = torch.distributions.Normal(mu, sd)
d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()])
x = d.sample()
d.log_prob(x).sum().backward()
d.log_prob(x).sum().backward()  # raises
""",
    "Transformed rsample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
base = torch.distributions.Normal(mu, sd)
d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()])
x = d.rsample()
x.sum().backward()
""",
    "Transformed rsample twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
base = torch.distributions.Normal(mu, sd)
d = torch.distributions.TransformedDistribution(base, [torch.distributions.TanhTransform()])
d.rsample().sum().backward()
d.rsample().sum().backward()  # raises
""",
    "RelaxedBernoulli log_prob twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.RelaxedBernoulli(torch.tensor(0.5), logits=mu)
x = d.sample()
d.log_prob(x).sum().backward()
d.log_prob(x).sum().backward()
""",
    "RelaxedBernoulli rsample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.RelaxedBernoulli(torch.tensor(0.5), logits=mu)
x = d.rsample()
x.sum().backward()
""",
    "Mixture sample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
mix = torch.distributions.Categorical(logits=mu)
d = torch.distributions.MixtureSameFamily(mix, torch.distributions.Normal(mu, sd))
x = d.sample()
x.sum().backward()  # raises
""",
    "Mixture sample log_prob": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
mix = torch.distributions.Categorical(logits=mu)
d = torch.distributions.MixtureSameFamily(mix, torch.distributions.Normal(mu, sd))
x = d.sample()
d.log_prob(x).sum().backward()
""",
    "Mixture log_prob twice": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
mix = torch.distributions.Categorical(logits=mu)
d = torch.distributions.MixtureSameFamily(mix, torch.distributions.Normal(mu, sd))
x = d.sample()
d.log_prob(x).sum().backward()
d.log_prob(x).sum().backward()  # raises
""",
    "OneHotST sample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.OneHotCategoricalStraightThrough(logits=mu)
x = d.sample()
x.sum().backward()  # raises
""",
    "OneHotST sample log_prob": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.OneHotCategoricalStraightThrough(logits=mu)
x = d.sample()
d.log_prob(x).sum().backward()
""",
    "OneHotST rsample": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.OneHotCategoricalStraightThrough(logits=mu)
x = d.rsample()
x.sum().backward()
""",
    "OneHotST entropy": """
import torch.distributions
mu = torch.zeros(4, requires_grad=True)
raw = torch.ones(4, requires_grad=True)
sd = raw.exp()
d = torch.distributions.OneHotCategoricalStraightThrough(logits=mu)
x = d.entropy().sum()
x.backward()
x.backward()  # raises
""",
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
    "spectral_norm two forwards": """
net = nn.utils.spectral_norm(nn.Linear(4, 4))
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "spectral_norm two backwards": """
net = nn.utils.spectral_norm(nn.Linear(4, 4))
a = net(torch.rand(2, 4)).sum()
a.backward()
a.backward()  # raises
""",
    "spectral_norm step between": """
net = nn.utils.spectral_norm(nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
a = net(torch.rand(2, 4)).pow(2).sum()
a.backward(retain_graph=True)
opt.step()
a.backward()  # raises
""",
    "spectral_norm eval two forwards": """
net = nn.utils.spectral_norm(nn.Linear(4, 4)).eval()
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "spectral_norm eval twice weight cached": """
net = nn.utils.spectral_norm(nn.Linear(4, 4)).eval()
a = net(torch.rand(2, 4)).sum()
a.backward()
b = net(torch.rand(2, 4)).sum()
b.backward()
""",
    "p.spectral_norm two forwards": """
net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "p.spectral_norm two backwards": """
net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
a = net(torch.rand(2, 4)).sum()
a.backward()
a.backward()  # raises
""",
    "p.spectral_norm weight kept": """
net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
w = net.weight
a = net(torch.rand(2, 4)).sum()
a.backward()
w.sum().backward()
""",
    "p.spectral_norm step between": """
net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
a = net(torch.rand(2, 4)).pow(2).sum()
a.backward(retain_graph=True)
opt.step()
a.backward()  # raises
""",
    "p.spectral_norm eval two forwards": """
net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).eval()
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "p.spectral_norm eval twice weight cached": """
net = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)).eval()
a = net(torch.rand(2, 4)).sum()
a.backward()
b = net(torch.rand(2, 4)).sum()
b.backward()
""",
    "weight_norm two forwards": """
net = nn.utils.weight_norm(nn.Linear(4, 4))
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "weight_norm two backwards": """
net = nn.utils.weight_norm(nn.Linear(4, 4))
a = net(torch.rand(2, 4)).sum()
a.backward()
a.backward()  # raises
""",
    "weight_norm weight kept": """
net = nn.utils.weight_norm(nn.Linear(4, 4))
w = net.weight
a = net(torch.rand(2, 4)).sum()
a.backward()
w.sum().backward()
""",
    "weight_norm step between": """
net = nn.utils.weight_norm(nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
a = net(torch.rand(2, 4)).pow(2).sum()
a.backward(retain_graph=True)
opt.step()
a.backward()  # raises
""",
    "weight_norm eval two forwards": """
net = nn.utils.weight_norm(nn.Linear(4, 4)).eval()
a = net(torch.rand(2, 4)).sum()
b = net(torch.rand(2, 4)).sum()
(a + b).backward()
""",
    "weight_norm eval twice weight cached": """
net = nn.utils.weight_norm(nn.Linear(4, 4)).eval()
a = net(torch.rand(2, 4)).sum()
a.backward()
b = net(torch.rand(2, 4)).sum()
b.backward()
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
