"""What torch's containers of modules and parameters hold once operators and methods changed them, as in `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_DECODER = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])
        for i in range(2):
            {grown}
        self.model = nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.decoder:
            x = layer(x)
        return self.model(x)

net = Net()
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    loss = (net(torch.randn(5, 8)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_ALL = "assert len(list(net.parameters())) == 8\n"

GROWN = {
    "`+=` registers what a ModuleList is given": Program(
        _DECODER.format(grown="self.decoder += [nn.Linear(8, 8), nn.ReLU()]"), _ALL
    ),
    "`+` makes another ModuleList": Program(
        _DECODER.format(grown="self.decoder = self.decoder + [nn.Linear(8, 8)]"), _ALL
    ),
    "what an assignment under a negative index replaces": Program(
        _DECODER.format(grown="self.decoder[-1] = nn.Linear(8, 8)"), "assert len(list(net.parameters())) == 6\n"
    ),
    "a list that `+=` has made longer is none of a module's": Program(
        _DECODER.format(grown="self.decoder += [nn.Linear(8, 8)]").replace(
            "nn.ModuleList([nn.Linear(8, 8), nn.ReLU()])", "[nn.Linear(8, 8)]  # TAPE405"
        ),
        "assert len(list(net.parameters())) == 2\n",
    ),
    "a Sequential grown and repeated by operators": Program(
        """\
net = nn.Sequential(nn.Linear(4, 4))
net += nn.Sequential(nn.ReLU(), nn.Linear(4, 4))
net *= 2
del net[-1]
optimizer = torch.optim.Adam(net.parameters())
for step in range(3):
    loss = net(torch.randn(5, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        "assert len(net) == 5 and len(list(net.parameters())) == 4\n",
    ),
    "an nn.ParameterList grown by `+=`": Program(
        """\
net, scales = nn.Linear(3, 2), nn.ParameterList()
for i in range(2):
    scales += [torch.ones(2)]
optimizer = torch.optim.Adam([*net.parameters(), *scales.parameters()])
for step in range(3):
    loss = (net(torch.randn(5, 3)) * scales[0] * scales[1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        "assert len(list(scales.parameters())) == 2\n",
    ),
}

_GAINS = """\
net, gains = nn.Linear(3, 2), {gains}
optimizer = torch.optim.Adam([*net.parameters(), *gains.parameters()])
for step in range(3):
    context, out = torch.randn(4), {{}}
    for name, p in net.named_parameters():
        p = p.detach()  # TAPE402
        out[name] = p * (1 + gains[name](context))[:, None] if {test} else p
    loss = nn.functional.linear(torch.randn(5, 3), out["weight"], out["bias"]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_BIAS = 'nn.ModuleDict({"bias": nn.Linear(4, 2)})'

KEYS = {
    "a key that a ModuleDict certainly has": Program(
        _GAINS.format(gains='nn.ModuleDict({"weight": nn.Linear(4, 2)})', test="name in gains")
    ),
    "a key that a ModuleDict certainly has, asked the other way round": Program(
        _GAINS.format(gains='nn.ModuleDict([["weight", nn.Linear(4, 2)]])', test="not name not in gains")
    ),
    "a key of a module that was asked for by its list of keys": Program(
        _GAINS.format(gains='nn.ModuleDict({"weight": nn.Linear(4, 2)})', test="name in gains.keys()")
    ),
    "a key that a ModuleDict got later": Program(
        _GAINS.format(gains="nn.ModuleDict()", test="name in gains").replace(
            "optimizer = ", 'gains["weight"] = nn.Linear(4, 2)\noptimizer = ', 1
        )
    ),
    "a module of the user's own that is a ModuleDict": Program(
        "class Gains(nn.ModuleDict):\n    pass\n\n"
        + _GAINS.format(gains='Gains({"weight": nn.Linear(4, 2)})', test="name in gains")
    ),
    "no key of it is ever asked for: nothing has a graph": Program(
        _GAINS.format(gains='nn.ModuleDict({"other": nn.Linear(4, 2)})', test="name in gains")
        .replace("  # TAPE402", "")
        .replace("    loss.backward()", "    loss.backward()  # TAPE103 raises")
    ),
    "a ModuleDict from which the key was taken": Program(
        _GAINS.format(gains='nn.ModuleDict({"weight": nn.Linear(4, 2)})', test="name in gains")
        .replace("optimizer = ", 'gains.pop("weight")\noptimizer = ', 1)
        .replace("  # TAPE402", "")
        .replace("    loss.backward()", "    loss.backward()  # TAPE103 raises")
    ),
    "a layer in a ModuleList": Program(
        """\
first, second = nn.Linear(3, 3), nn.Linear(3, 3)
layers = nn.ModuleList([first])
for step in range(2):
    x = torch.randn(2, 3)
    if first in layers:
        x = first(x)
    if second in layers:
        x = second(x).detach()
    x.sum().backward()
"""
    ),
}
