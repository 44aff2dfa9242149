"""Gradients in what is differentiated once more, by their inputs alone, as in `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_PRODUCT = """\
def grd(a, b):
    return torch.autograd.grad(a, b, create_graph=True, retain_graph=True)

def jvp(f, params, vs):
    dummy = [torch.ones_like(w).requires_grad_(True) for w in f(params)]
    g1 = grd(torch.stack([(a * b).sum() for a, b in zip(f(params), dummy)]).sum(), params)
    return grd(torch.stack([(a * b).sum() for a, b in zip(vs, g1)]).sum(), dummy)

def product(params, mapped, f, xs):
    jt = torch.autograd.grad(mapped, params, grad_outputs=xs, retain_graph=True)
    diff = [v - j for v, j in zip(xs, jt)]
    return [v - w for v, w in zip(diff, jvp(f, params, diff))]

def solve(params, f, xs):
    params = [w.detach().requires_grad_(True) for w in params]
    mapped = f(params)
    return product(params, mapped, f, product(params, mapped, f, xs))

print(solve([torch.randn(3)], lambda p: [w * w for w in p], [torch.randn(3)]))
"""
_STEPS = """\
def descend(params, aux, loss, lr, momentum, create_graph=True):
    grads = torch.autograd.grad(loss, params, create_graph=create_graph)
    return [w - lr * g + momentum * (w - v) for g, w, v in zip(grads, params, aux)], params

x, y = torch.randn(8, 3), torch.randn(8)
scale, start = torch.ones(1, requires_grad=True), torch.zeros(3, requires_grad=True)
w, aux = [start], [start]
for t in range(2):
    loss = ((x @ w[0] - y) ** 2).mean() + (scale * w[0] ** 2).sum()
    w, aux = descend(w, aux, loss, 0.1, 0.9, create_graph=False)
loss = ((x @ w[0] - y) ** 2).mean() + (scale * w[0] ** 2).sum()
print(torch.autograd.grad(loss, {last}))
"""

DIFFERENTIATED = {
    "the vector of a product with a Jacobian": Program(_PRODUCT),
    "plain steps that nothing is differentiated through": Program(_STEPS.format(last="w")),
    "inner steps that the outer loss is differentiated through": Program(
        _STEPS.format(last="[start]").replace(
            "zip(grads, params, aux)], params", "zip(grads, params, aux)], params  # TAPE401"
        )
    ),
    "a penalty on a gradient, by the parameters that it hangs on": Program(
        """\
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
for step in range(2):
    x = torch.randn(5, 3, requires_grad=True)
    out = net(x)
    (g,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    loss = out.mean() + g.pow(2).mean()  # TAPE401
    grads = torch.autograd.grad(loss, list(net.parameters()))
    with torch.no_grad():
        for p, d in zip(net.parameters(), grads):
            p -= 0.1 * d
"""
    ),
}
