"""Minimal programs on which torch and an earlier dry run disagreed; `# raises` marks the line torch raises at."""

PROGRAMS = {
    "a view made before its base changes follows the base": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
u = h.view(4, 4)
h *= 0.5
z = u.sum()
z.backward()
z.backward()  # raises
""",
    "a view of data gets the graph its base is given": """
v = torch.rand(4, 4, requires_grad=True)
c = torch.rand(4, 4)
u = c.view(4, 4)
c += v
u.sum().backward()
""",
    "an in-place change through a view made on the spot": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
h.t().add_(1)
z = h.sum()
z.backward()
z.backward()  # raises
""",
    "sort saves the indices, not the values": """
w = torch.rand(4, 4, requires_grad=True)
y = w.sort(dim=1)[0]
y += 1
y.sum().backward()
""",
    "double and float make copies": """
w = torch.rand(4, 4, requires_grad=True)
u = w.exp()
y = u.double().float()
z = u ** 2
with torch.no_grad():
    y.mul_(2)
z.sum().backward()
""",
    "an operand that is also the target is saved before it changes": """
w = torch.rand(4, 4, requires_grad=True)
h = w + 0
h *= h
h.sum().backward()  # raises
""",
    "a namespace keeps what is put into it": """
from types import SimpleNamespace
w = torch.ones(4, 4, requires_grad=True)
ns = SimpleNamespace(h=w * 2)
for t in range(3):
    ns.h.mean().backward()  # raises
""",
    "an input outside the graph has no gradient": """
w = torch.randn(4, 4, requires_grad=True)
v = torch.randn(4, 4, requires_grad=True)
loss = (w ** 2).sum()
g, = torch.autograd.grad(loss, v, retain_graph=True, allow_unused=True)
if g is not None:
    g.sum().backward()
loss.backward()
""",
    "the graph of a gradient leads through a saved result": """
w = torch.randn(4, 4, requires_grad=True)
cost = w.tanh().sum()
g = torch.autograd.grad(cost, w, create_graph=True)[0]
torch.autograd.grad(g.pow(2).mean(), w)
cost.backward()  # raises
""",
    "in-place activations between layers": """
net = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 8), nn.ReLU(inplace=True),
                    nn.Linear(8, 1))
for _ in range(2):
    net(torch.randn(3, 4)).sum().backward()
""",
    "one linear layer on data may be stepped before a second backward": """
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(3, 4)).pow(2).mean()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()
""",
    "two layers may not": """
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = net(torch.randn(3, 4)).pow(2).mean()
loss.backward(retain_graph=True)
optimizer.step()
loss.backward()  # raises
""",
    "embedding with max_norm changes its weight": """
table = nn.Embedding(8, 4, max_norm=1.0)
proj = nn.Parameter(torch.randn(4, 4))
with torch.no_grad():
    table.weight.mul_(5)
every = table.weight @ proj
(table(torch.tensor([1, 2])) @ every.t()).sum().backward()  # raises
""",
    "a tensor set on a Sequential is no layer": """
net = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
net.kept = torch.zeros(3)
for _ in range(3):
    out = net(torch.randn(2, 3) + net.kept)
    out.sum().backward()
    net.kept = out.detach()[0]
""",
    "a Function's backward that reads what was saved": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(3, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()  # raises
""",
    "a Function that saves and never reads": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        pass
        return g
w = torch.rand(3, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()
""",
    "what a Function keeps on ctx is never freed": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x
    @staticmethod
    def backward(ctx, g):
        x = ctx.x
        return 2 * x * g
w = torch.rand(3, requires_grad=True)
y = Square.apply(w).sum()
y.backward()
y.backward()
""",
    "what a Function saved and somebody changed": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g
w = torch.rand(3, requires_grad=True)
h = w * 1
y = Square.apply(h).sum()
h += 1
y.backward()  # raises
""",
    "what a Function saved and never reads may change": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        pass
        return g
w = torch.rand(3, requires_grad=True)
h = w * 1
y = Square.apply(h).sum()
h += 1
y.backward()
""",
    "the graph behind a Function is freed with it": """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale = 2.0
        return x * x
    @staticmethod
    def backward(ctx, g):
        pass
        return ctx.scale * g
w = torch.rand(3, requires_grad=True)
h = w.exp()
a, b = h.sum(), Square.apply(h).sum()
a.backward()
b.backward()  # raises
""",
    "a Function with setup_context": """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, by):
        return x * by
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.by = inputs
        ctx.save_for_backward(x)
    @staticmethod
    def backward(ctx, g):
        ctx.saved_tensors
        return g * ctx.by, None
w = torch.rand(3, requires_grad=True)
y = Scaled.apply(w, 2.0).sum()
y.backward()
y.backward()  # raises
""",
    "a Function that changes its input": """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 2
w = torch.rand(3, requires_grad=True)
h = w.exp()
Doubled.apply(h)
h.sum().backward()  # raises
""",
    "a Function that changes what nobody saved": """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * 2
w = torch.rand(3, requires_grad=True)
h = w + 1
Doubled.apply(h)
h.sum().backward()
h.sum().backward()
""",
}
