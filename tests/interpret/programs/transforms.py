"""Checkpoints, averaged models, torch.func and custom Functions, as torch runs them."""

PROGRAMS = {
    "attention: need_weights False twice": """
m = nn.MultiheadAttention(4, 2)
x = torch.rand(3, 2, 4)
out, weights = m(x, x, x, need_weights=False)
out.sum().backward()
out.sum().backward()  # raises
""",
    "attention: weights graph": """
m = nn.MultiheadAttention(4, 2)
x = torch.rand(3, 2, 4)
out, weights = m(x, x, x)
out.sum().backward()
weights.sum().backward()  # raises
""",
    "attention: weights not averaged": """
m = nn.MultiheadAttention(4, 2)
x = torch.rand(3, 2, 4)
out, weights = m(x, x, x, average_attn_weights=False)
loss = out.sum() + weights.sum()
loss.backward()
loss.backward()  # raises
""",
    "attention: in place on out": """
m = nn.MultiheadAttention(4, 2, batch_first=True)
x = torch.rand(2, 3, 4)
out, _ = m(x, x, x, need_weights=False)
out.mul_(2)
out.sum().backward()
""",
    "attention: in place on input": """
m = nn.MultiheadAttention(4, 2)
x = torch.rand(3, 2, 4)
out, _ = m(x, x, x, need_weights=False)
x.add_(1)
out.sum().backward()  # raises
""",
    "attention: in place on input need weights": """
m = nn.MultiheadAttention(4, 2)
x = torch.rand(3, 2, 4)
out, _ = m(x, x, x)
x.add_(1)
out.sum().backward()  # raises
""",
    "checkpoint True twice": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=True).sum()
y.backward()
y.backward()  # raises
""",
    "checkpoint True retain": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=True).sum()
y.backward(retain_graph=True)
y.backward()
""",
    "checkpoint True of data": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4)
y = checkpoint(net, x, use_reentrant=True).sum()
y.backward()  # raises
""",
    "checkpoint True weight changed": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=True).sum()
y.backward(retain_graph=True)
opt.step()
y.backward()
""",
    "checkpoint True input changed": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
x = torch.rand(2, 4, requires_grad=True)
h = x * 2
y = checkpoint(net, h, use_reentrant=True).sum()
h.add_(1)
y.backward()  # raises
""",
    "checkpoint True two outputs detached": """
from torch.utils.checkpoint import checkpoint
net = nn.Linear(4, 4)
def run(v):
    h = net(v)
    return h, h.detach()
x = torch.rand(2, 4, requires_grad=True)
a, b = checkpoint(run, x, use_reentrant=True)
b.sum().backward()
""",
    "checkpoint_sequential True twice": """
from torch.utils.checkpoint import checkpoint_sequential
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint_sequential(net, 2, x, use_reentrant=True).sum()
y.backward()
y.backward()  # raises
""",
    "checkpoint_sequential True data": """
from torch.utils.checkpoint import checkpoint_sequential
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4)
y = checkpoint_sequential(net, 2, x, use_reentrant=True).sum()
y.backward()
""",
    "checkpoint False twice": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=False).sum()
y.backward()
y.backward()  # raises
""",
    "checkpoint False retain": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=False).sum()
y.backward(retain_graph=True)
y.backward()
""",
    "checkpoint False of data": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4)
y = checkpoint(net, x, use_reentrant=False).sum()
y.backward()
""",
    "checkpoint False autograd.grad": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=False).sum()
g, = torch.autograd.grad(y, x)
""",
    "checkpoint False weight changed": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(net, x, use_reentrant=False).sum()
y.backward(retain_graph=True)
opt.step()
y.backward()
""",
    "checkpoint False input changed": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
x = torch.rand(2, 4, requires_grad=True)
h = x * 2
y = checkpoint(net, h, use_reentrant=False).sum()
h.add_(1)
y.backward()  # raises
""",
    "checkpoint False no_grad inside": """
from torch.utils.checkpoint import checkpoint
net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
def run(v):
    with torch.no_grad():
        return net(v)
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint(run, x, use_reentrant=False).sum()
y.backward()  # raises
""",
    "checkpoint False two outputs detached": """
from torch.utils.checkpoint import checkpoint
net = nn.Linear(4, 4)
def run(v):
    h = net(v)
    return h, h.detach()
x = torch.rand(2, 4, requires_grad=True)
a, b = checkpoint(run, x, use_reentrant=False)
b.sum().backward()  # raises
""",
    "checkpoint_sequential False twice": """
from torch.utils.checkpoint import checkpoint_sequential
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4, requires_grad=True)
y = checkpoint_sequential(net, 2, x, use_reentrant=False).sum()
y.backward()
y.backward()  # raises
""",
    "checkpoint_sequential False data": """
from torch.utils.checkpoint import checkpoint_sequential
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
x = torch.rand(2, 4)
y = checkpoint_sequential(net, 2, x, use_reentrant=False).sum()
y.backward()
""",
    "averaged model update": """
net = nn.Linear(4, 4)
avg = torch.optim.swa_utils.AveragedModel(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(3):
    opt.zero_grad()
    net(torch.rand(2, 4)).sum().backward()
    opt.step()
    avg.update_parameters(net)
""",
    "averaged model in loss, stale": """
net = nn.Linear(4, 4)
avg = torch.optim.swa_utils.AveragedModel(net)
for i in range(3):
    x = torch.rand(2, 4, requires_grad=True)
    loss = (avg(net(x)) - 1).pow(2).mean()
    avg.update_parameters(net)
    loss.backward()  # raises
""",
    "averaged model second update then backward": """
net = nn.Linear(4, 4)
avg = torch.optim.swa_utils.AveragedModel(net)
avg.update_parameters(net)
x = torch.rand(2, 4, requires_grad=True)
loss = (avg(net(x)) - 1).pow(2).mean()
avg.update_parameters(net)
loss.backward()  # raises
""",
    "averaged model ema": """
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
net = nn.Linear(4, 4)
avg = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))
avg.update_parameters(net)
x = torch.rand(2, 4, requires_grad=True)
loss = (avg(net(x)) - 1).pow(2).mean()
avg.update_parameters(net)
loss.backward()  # raises
""",
    "averaged model avg_fn": """
net = nn.Linear(4, 4)
avg = torch.optim.swa_utils.AveragedModel(net, avg_fn=lambda a, b, n: 0.9 * a + 0.1 * b)
avg.update_parameters(net)
with torch.no_grad():
    target = avg(torch.rand(2, 4))
loss = (net(torch.rand(2, 4)) - target).pow(2).mean()
loss.backward()
avg.update_parameters(net)
target.sum().backward()  # raises
""",
    "averaged model backward reaches it": """
net = nn.Linear(4, 4)
avg = torch.optim.swa_utils.AveragedModel(net)
avg(torch.rand(2, 4)).sum().backward()
""",
    "averaged module's parameters": """
net = nn.Linear(4, 4)
avg = torch.optim.swa_utils.AveragedModel(net)
g = torch.autograd.grad(avg.module(torch.rand(2, 4)).sum(), list(avg.parameters()))
h = torch.autograd.grad(avg.module(torch.rand(2, 4)).sum(), list(net.parameters()))  # raises
""",
    "update_bn": """
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
loader = [torch.rand(4, 4) for _ in range(3)]
avg = torch.optim.swa_utils.AveragedModel(net)
loss = avg(torch.rand(4, 4)).sum()
torch.optim.swa_utils.update_bn(loader, avg)
loss.backward()  # raises
""",
    "update_bn same net": """
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
loader = [torch.rand(4, 4) for _ in range(3)]
loss = net(torch.rand(4, 4)).sum()
torch.optim.swa_utils.update_bn(loader, net)
loss.backward()  # raises
""",
    "swalr": """
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.swa_utils.SWALR(opt, swa_lr=0.05)
loss = net(torch.rand(2, 4)).sum()
loss.backward()
opt.step()
sched.step()
loss.backward()  # raises
""",
    "func.grad result has no graph": """
w = torch.rand(4, requires_grad=True)
g = torch.func.grad(lambda v: (v ** 2).sum())(w)
g.sum().backward()
""",
    "func.grad of data": """
w = torch.rand(4)
g = torch.func.grad(lambda v: (v ** 2).sum())(w)
g.sum().backward()  # raises
""",
    "func.grad then loss": """
net = nn.Linear(4, 1)
x = torch.rand(3, 4)
params = {k: v.detach() for k, v in net.named_parameters()}
def loss_fn(p, x):
    return torch.func.functional_call(net, p, (x,)).pow(2).mean()
grads = torch.func.grad(loss_fn)(params, x)
sum(g.sum() for g in grads.values()).backward()  # raises
""",
    "func.grad over live params": """
net = nn.Linear(4, 1)
x = torch.rand(3, 4)
params = dict(net.named_parameters())
def loss_fn(p, x):
    return torch.func.functional_call(net, p, (x,)).pow(2).mean()
grads = torch.func.grad(loss_fn)(params, x)
sum(g.sum() for g in grads.values()).backward()
""",
    "vmap carries": """
net = nn.Linear(4, 1)
x = torch.rand(3, 4)
y = torch.func.vmap(lambda v: net(v))(x).sum()
y.backward()
y.backward()  # raises
""",
    "vmap of data": """
x = torch.rand(3, 4)
y = torch.vmap(lambda v: v.sum())(x).sum()
y.backward()  # raises
""",
    "vmap of data sin": """
x = torch.rand(3, 4)
w = torch.rand(4, requires_grad=True)
y = torch.vmap(lambda v: (v * w).sum())(x).sum()
y.backward()
y.backward()  # raises
""",
    "jacrev data": """
w = torch.rand(4)
j = torch.func.jacrev(lambda v: v ** 3)(w)
j.sum().backward()  # raises
""",
    "hessian": """
w = torch.rand(4, requires_grad=True)
h = torch.func.hessian(lambda v: (v ** 3).sum())(w)
h.sum().backward()
""",
    "functional jacobian": """
w = torch.rand(4, requires_grad=True)
j = torch.autograd.functional.jacobian(lambda v: v ** 3, w)
j.sum().backward()  # raises
""",
    "functional jacobian create": """
w = torch.rand(4, requires_grad=True)
j = torch.autograd.functional.jacobian(lambda v: v ** 3, w, create_graph=True)
j.sum().backward()
""",
    "functional hessian": """
w = torch.rand(4, requires_grad=True)
j = torch.autograd.functional.hessian(lambda v: (v ** 3).sum(), w)
j.sum().backward()  # raises
""",
    "functional hvp": """
w = torch.rand(4, requires_grad=True)
out, hv = torch.autograd.functional.hvp(lambda v: (v ** 3).sum(), w, torch.ones(4))
hv.sum().backward()  # raises
""",
    "functional vjp create": """
w = torch.rand(4, requires_grad=True)
out, v = torch.autograd.functional.vjp(lambda v: v ** 3, w, torch.ones(4), create_graph=True)
v.sum().backward()
out.sum().backward()
""",
    "jacobian lambda with backward inside": """
w = torch.rand(4, requires_grad=True)
y = (w ** 2).sum()
y.backward()
j = torch.autograd.functional.jacobian(lambda v: (v * w).sum() + y, torch.rand(4))
""",
    "functional jacobian create of what is changed in place": """
lin = nn.Linear(4, 4)
def f(v):
    h = F.relu_(lin(v))
    torch.relu_(h)
    return h.sum(0)
x = torch.rand(4, 4)
j = torch.autograd.functional.jacobian(f, x, create_graph=True)  # raises
(j.pow(2).mean() + f(x).mean()).backward()
""",
    "functional jvp of what is changed in place": """
lin = nn.Linear(4, 4)
def f(v):
    h = lin(v).sigmoid()
    h.mul_(2)
    return h
out, jv = torch.autograd.functional.jvp(f, torch.rand(4, 4), torch.ones(4, 4))  # raises
""",
    "functional hvp create of what is not saved": """
lin = nn.Linear(4, 4)
def f(v):
    h = lin(v)
    h.mul_(2)
    return h.pow(3).sum()
x = torch.rand(4, 4)
out, hv = torch.autograd.functional.hvp(f, x, torch.ones(4, 4), create_graph=True)
(out + hv.sum()).backward()
""",
    "grad_and_value": """
w = torch.rand(4, requires_grad=True)
g, v = torch.func.grad_and_value(lambda v: (v ** 2).sum())(w)
v.backward()
""",
    "func.vjp": """
w = torch.rand(4, requires_grad=True)
out, pull = torch.func.vjp(lambda v: v ** 2, w)
(g,) = pull(torch.ones(4))
g.sum().backward()
""",
    "functional_call twice": """
net = nn.Linear(4, 1)
p = {k: v * 2 for k, v in net.named_parameters()}
y = torch.func.functional_call(net, p, (torch.rand(3, 4),)).sum()
y.backward()
y.backward()  # raises
""",
    "functional_call detached": """
net = nn.Linear(4, 1)
p = {k: v.detach() for k, v in net.named_parameters()}
y = torch.func.functional_call(net, p, (torch.rand(3, 4),)).sum()
y.backward()  # raises
""",
    "functional_call tuple of dicts": """
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
p = {k: v.detach() for k, v in net.named_parameters()}
b = dict(net.named_buffers())
y = torch.func.functional_call(net, (p, b), (torch.rand(3, 4),)).sum()
y.backward()  # raises
""",
    "functional_call puts tied weights back": """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight
    def forward(self, x):
        return self.b(self.a(x).tanh())
net, w = Tied(), torch.rand(4, 4)
torch.func.functional_call(net, {"a.weight": w, "b.weight": w}, (torch.rand(3, 4),))
net(torch.rand(3, 4)).sum().backward()
""",
    "functional_call single arg": """
net = nn.Linear(4, 1)
p = {k: v * 2 for k, v in net.named_parameters()}
y = torch.func.functional_call(net, p, torch.rand(3, 4)).sum()
y.backward()
""",
    "stack_module_state": """
nets = [nn.Linear(4, 1) for _ in range(3)]
params, buffers = torch.func.stack_module_state(nets)
base = nn.Linear(4, 1)
y = torch.vmap(lambda p, x: torch.func.functional_call(base, p, (x,)), (0, None))(params, torch.rand(2, 4)).sum()
y.backward()
y.backward()  # raises
""",
    "once_differentiable double backward": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

g, = torch.autograd.grad(Square.apply(w).sum(), w, create_graph=True)
g.sum().backward()  # raises
""",
    "once_differentiable second backward": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

y = Square.apply(w).sum()
y.backward()
y.backward()  # raises
""",
    "once_differentiable create no use": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

g, = torch.autograd.grad(Square.apply(w).sum(), w, create_graph=True)
w.data.sub_(g.detach())
""",
    "once_differentiable mixed": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

u = torch.rand(4, requires_grad=True)
g, = torch.autograd.grad((Square.apply(w) * u ** 2).sum(), u, create_graph=True)
g.sum().backward()
""",
    "function double backward": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

g, = torch.autograd.grad(Square.apply(w).sum(), w, create_graph=True)
g.sum().backward()
""",
    "function ctx attribute": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x
    @staticmethod
    def backward(ctx, g):
        x = ctx.x
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

y = Square.apply(w).sum()
y.backward()
y.backward()
""",
    "function save, changed in place": """
from torch.autograd.function import once_differentiable
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)

h = w * 1
y = Square.apply(h).sum()
h.add_(1)
y.backward()  # raises
""",
    "function mark_dirty": """
class Inc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.add_(1)
        return x
    @staticmethod
    def backward(ctx, g):
        return g
w = torch.rand(4, requires_grad=True)
h = w.exp()
y = Inc.apply(h)
y.sum().backward()  # raises
""",
    "function returns none grad": """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k
    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None
w = torch.rand(4, requires_grad=True)
y = Scale.apply(w, 3).sum()
y.backward()
y.backward()
""",
    "function straight-through": """
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()
    @staticmethod
    def backward(ctx, g):
        return g
w = torch.rand(4, requires_grad=True)
y = (Round.apply(w) * w).sum()
y.backward()
""",
    "function setup_context": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(4, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()  # raises
""",
    "function non differentiable": """
class TopOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        v, i = x.max(0)
        f = i.float()
        ctx.mark_non_differentiable(f)
        return v, f
    @staticmethod
    def backward(ctx, g, _):
        return g * torch.ones(4)
w = torch.rand(4, requires_grad=True)
v, i = TopOne.apply(w)
v.backward()
i.backward()  # raises
""",
    "a deep copy computes its weight of its own parameters": """
import copy
net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
twin = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loss = twin(torch.randn(4, 3)).pow(2).sum()
loss.backward(retain_graph=True)
net(torch.randn(4, 3)).sum().backward()
opt.step()
loss.backward()
""",
    "a step changes what a computed weight was made of": """
net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(4, 3)).pow(2).sum()
loss.backward(retain_graph=True)
opt.step()
loss.backward()  # raises
""",
    "one of two computed weights is a parameter again": """
class Half(nn.Module):
    def forward(self, w):
        return w / 2
net = nn.Linear(3, 2)
nn.utils.parametrize.register_parametrization(net, "weight", Half())
nn.utils.parametrize.register_parametrization(net, "bias", Half())
nn.utils.parametrize.remove_parametrizations(net, "weight")
loss = net(torch.randn(4, 3)).pow(2).sum()
loss.backward()
loss.backward()  # raises
""",
}
