"""Optimizers that hold what their names no longer mean, and those that were told of it, as in `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_IMAGE = """\
features = nn.Conv2d(3, 4, 3).requires_grad_(False)
image = {made}
optimizer = torch.optim.Adam([image], lr=0.05)
first = image.detach().clone()
given = image
for step in range(5):
    optimizer.zero_grad()
    loss = features(image).pow(2).mean()
    loss.backward()
    optimizer.step()
    if step == 0:
        after = given.detach().clone()
    {anew}
"""
_ONCE = "assert torch.equal(given, after) and not torch.equal(given, first)\n"
_LEAF = "torch.rand(1, 3, 8, 8, requires_grad=True)"
_ANEW = (
    "image = image.clamp(0, 1).detach().requires_grad_(True)  # TAPE405",
    "image = torch.clamp(image.data, 0, 1).requires_grad_()  # TAPE405",
    "image = nn.Parameter(image.clamp(0, 1))  # TAPE405",
    "image = image.detach().clamp(0, 1)\n    image.requires_grad = True  # TAPE405",
)
_SPLAT = """\
class Points:
    def __init__(self):
        self.xyz = nn.Parameter(torch.rand(6, 3))
        self.optimizer = torch.optim.Adam([{{"params": [self.xyz], "lr": 0.01, "name": "xyz"}}])

    def replace(self, tensor, name):
        for group in self.optimizer.param_groups:
            if group["name"] == name:
                {given}
                return {returned}

    def prune(self):
        self.xyz = self.replace(self.xyz[:-1].detach(), "xyz")

points = Points()
for step in range(4):
    points.xyz.pow(2).mean().backward()
    points.optimizer.step()
    points.optimizer.zero_grad()
    points.prune()
"""

RENAMED = {
    **{
        f"a name that means a new tensor: {anew}": Program(_IMAGE.format(made=_LEAF, anew=anew), _ONCE)
        for anew in _ANEW
    },
    "a parameter of an object that is replaced": Program(
        """\
class Attack:
    def __init__(self, model):
        self.model = model
        self.delta = torch.zeros(1, 3, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.delta], lr=0.1)

    def run(self, x):
        for step in range(4):
            loss = -self.model(x + self.delta).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.delta = self.delta.clamp(-0.1, 0.1).detach().requires_grad_()  # TAPE405

Attack(nn.Linear(3, 1).requires_grad_(False)).run(torch.randn(1, 3))
"""
    ),
    "changed in place": Program(
        _IMAGE.format(made=_LEAF, anew="with torch.no_grad():\n        image.clamp_(0, 1)"),
        "assert not torch.equal(given, after)\n",
    ),
    "a new optimizer for each new tensor": Program(
        _IMAGE.format(
            made=_LEAF,
            anew="image = image.clamp(0, 1).detach().requires_grad_()\n"
            "    optimizer = torch.optim.Adam([image], lr=0.05)",
        )
    ),
    "a group for each new tensor": Program(
        _IMAGE.format(
            made=_LEAF,
            anew="image = image.clamp(0, 1).detach().requires_grad_()\n"
            "    optimizer.param_groups[0]['params'] = [image]",
        )
    ),
    "the gradient of the new tensor is used by hand": Program(
        _IMAGE.format(
            made=_LEAF,
            anew="if image.grad is not None:\n        image = (image - 0.1 * image.grad).detach().requires_grad_()",
        )
    ),
    "a tensor that is put into the group": Program(
        _SPLAT.format(
            given='group["params"][0] = nn.Parameter(tensor.requires_grad_(True))', returned='group["params"][0]'
        )
    ),
    "a tensor that a new group is made of": Program(
        _SPLAT.format(given='group["params"] = [nn.Parameter(tensor)]', returned='group["params"][0]')
    ),
}
