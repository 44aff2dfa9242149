"""Programs with generators that wait inside of a block, such as `no_grad`, in the format of `programs`."""

from __future__ import annotations

from tests.ecosystem.programs import Program

HEAD = """\
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def predictions(batches):
    with torch.no_grad():
        for x in batches:
            yield net(x)


def train(batches):
    for epoch in range(3):
        for x in batches:
            loss = net(x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        {}
"""
RUN = """\
train([torch.randn(4, 2) for _ in range(5)])
"""


def _taken(how: str) -> Program:
    return Program(HEAD.format(how), RUN)


SUSPENDED = {
    "a generator under no_grad, gone through by a loop": _taken(
        "for y in predictions(batches): total = y.sum().item()"
    ),
    "a generator under no_grad, summed": _taken("total = sum(y.sum().item() for y in predictions(batches))"),
    "a generator under no_grad, taken into a list": _taken("out = torch.cat(list(predictions(batches)))"),
    "a generator under no_grad, zipped": _taken("for y, x in zip(predictions(batches), batches): y = y - x[:, :1]"),
    "a generator under no_grad, of which the largest is taken": _taken("best = max(predictions(batches), key=len)"),
    "a generator under no_grad, unpacked": _taken("first, *others = predictions(batches)"),
    "a generator under no_grad that nobody holds": _taken("first = next(predictions(batches))"),
    "a generator under no_grad, left at the first element": _taken("for y in predictions(batches): break"),
    "a generator under no_grad that goes on waiting": Program(
        HEAD.replace("loss.backward()", "loss.backward()  # TAPE103  # raises").format(
            "waiting = predictions(batches); next(waiting)"
        ),
        RUN,
    ),
}
