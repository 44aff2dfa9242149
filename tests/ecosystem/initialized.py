"""What initializes parameters in a loop, before anything is trained, is no other way of training, as in `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

_BACKBONE = """\
backbone, head = nn.Linear(6, 8), nn.Linear(8, 2)
{written}
for p in backbone.parameters():
    p.requires_grad = False  # TAPE402
groups = [{{"params": backbone.parameters(), "lr": 1e-4}}, {{"params": head.parameters()}}]
optimizer = torch.optim.AdamW(groups, lr=1e-2)
before = backbone.weight.clone()
for step in range(3):
    loss = head(backbone(torch.randn(5, 6))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
_STAYED = "assert torch.equal(before, backbone.weight)\n"
_LORA = """\
class LoRA(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.empty(2, 8))  # TAPE405
        self.B = nn.Parameter(torch.randn(8, 2))
        {initialized}

    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T

model = nn.ModuleList([nn.ModuleDict({{"up": nn.Linear(8, 8), "down": nn.Linear(8, 8)}}) for _ in range(2)])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for block in model:
    block["up"] = LoRA(block["up"])
for step in range(3):
    h = torch.randn(4, 8)
    for block in model:
        h = block["down"](block["up"](h))
    optimizer.zero_grad()
    h.pow(2).mean().backward()
    optimizer.step()
"""
_CENTERS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.centers = [nn.Parameter(torch.zeros(3))]{made}
        for center in self.centers:
            nn.init.normal_(center)

net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    out = net.body(torch.randn(5, 4))
    loss = (out - net.centers[0]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{moved}"""

INITIALIZED = {
    "weights are scaled under `no_grad` before they are frozen": Program(
        _BACKBONE.format(written="with torch.no_grad():\n    for p in backbone.parameters():\n        p.mul_(1.1)"),
        _STAYED,
    ),
    "weights are copied through `.data` before they are frozen": Program(
        _BACKBONE.format(
            written="saved = nn.Linear(6, 8)\nfor p, q in zip(backbone.parameters(), saved.parameters()):\n"
            "    p.data.copy_(q.data)"
        ),
        _STAYED,
    ),
    "weights are initialized layer by layer before they are frozen": Program(
        _BACKBONE.format(written="for m in [backbone, head]:\n    nn.init.zeros_(m.weight)"), _STAYED
    ),
    "adapters that are initialized where a loop makes them": Program(
        _LORA.format(initialized="nn.init.kaiming_uniform_(self.A)"),
        "assert model[0]['up'].A.grad is not None and model[0]['up'].A not in optimizer.state\n",
    ),
    "centers that a loop initializes": Program(
        _CENTERS.format(made="  # TAPE405", moved=""),
        "assert net.centers[0].grad.abs().sum() > 0\n",
    ),
    "centers that move with the data": Program(
        _CENTERS.format(
            made="",
            moved="    with torch.no_grad():\n"
            "        for center in net.centers:\n            center.lerp_(out.mean(0), 0.1)\n",
        )
    ),
    "centers that move now and then, after a training of their own": Program(
        _CENTERS.format(made="", moved="")
        + """\
for center in net.centers:
    center.data.copy_(out.mean(0))
for step in range(3):
    loss = (net.body(torch.randn(5, 4)) - net.centers[0]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ),
}
