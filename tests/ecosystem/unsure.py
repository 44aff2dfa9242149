"""Programs part of which is not visible: what rests on it is never said for sure, in the format of `programs`.

Each with relatives: the same mistake, or one beside it, that stays visible and is found.
"""

from __future__ import annotations

from tests.ecosystem.programs import Program

_CLEARED = """\
from helpers import {name}

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
rounds = {name}({given}, every=4)
for step in range(10):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    opt.step()
    rounds.advance()
"""
_CLEARS = "assert model.weight.grad is None or step % 4\n"

CALLS = {
    "a helper of another module clears gradients, whatever it is called": Program(
        _CLEARED.format(name="accumulate_scheduler", given="opt"), _CLEARS
    ),
    "a counter of another module has the model and clears its gradients": Program(
        _CLEARED.format(name="count_rounds", given="model"), _CLEARS
    ),
    "a logger that was handed in has the model and clears its gradients": Program(
        """\
def fit(logger, loader):
    model = nn.Linear(4, 1)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    logger.log(model)
    for x in loader:
        loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        logger.write()
    return model
""",
        """\
class Logger:
    def log(self, model):
        self.model = model

    def write(self):
        self.model.zero_grad()

assert fit(Logger(), [torch.randn(8, 4)] * 3).weight.grad is None
""",
    ),
    "a scheduler of torch has the optimizer for its learning rates": Program(
        """\
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 0.9 ** step)
for step in range(10):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()  # TAPE403
    opt.step()
    scheduler.step()
"""
    ),
    "a library is known by its path to look at a model only": Program(
        """\
import logging

model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
logging.info("%s", model)
for step in range(10):
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward()  # TAPE403
    opt.step()
"""
    ),
}
