"""Python's own semantics: what a program shows is the same in the dry run, and nothing of it is left undecided."""

from __future__ import annotations

import pytest

from tapecheck.interpret import interpret
from tapecheck.source import from_text
from tapecheck.tape import Decision, End, Raised
from tests.interpret.programs import semantics

PRELUDE = """\
import torch
SEEN = []

def show(*values):
    SEEN.append(values)

def assert_shown(expected):
    if SEEN != expected:
        raise AssertionError([pair for pair in zip(SEEN, expected) if pair[0] != pair[1]])

requires_grad = "the dry run looks at files that train"
"""
PROGRAMS = semantics.PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_python_shows_what_the_program_says(name: str) -> None:
    pytest.importorskip("torch")
    code = compile(PRELUDE + PROGRAMS[name], "program.py", "exec", dont_inherit=True)
    exec(code, {"__name__": "__main__"})


@pytest.mark.parametrize("name", PROGRAMS)
def test_dry_run_shows_the_same_and_knows_it(name: str) -> None:
    tape = interpret(from_text(PRELUDE + PROGRAMS[name], "program.py")).tapes[0]
    undecided = [event.at.span.line for event in tape.events if isinstance(event, Decision)]
    end = tape.events[-1]
    assert isinstance(end, End)
    assert (end.how, end.detail, undecided) == ("finished", "", [])


def test_a_hook_runs_before_a_node_behind_it_fails_and_tied_parameters_are_replaced_together() -> None:
    hooked = """\
import torch
w = torch.ones(3, requires_grad=True)
inner = w.exp()
z = w.exp()
out = torch.tanh(z)
with torch.no_grad():
    inner.add_(1)
    z.add_(1)
out.register_hook(lambda grad: torch.autograd.grad(inner.sum(), w)[0])
out.sum().backward()
"""
    assert ended_at(hooked) == 9
    tied = """\
import torch
from torch import nn
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.second.weight @ x
net = Tied()
with torch.no_grad():
    given = {name: value.clone() for name, value in net.named_parameters()}
torch.func.functional_call(net, given, (torch.ones(3),)).sum().backward()
"""
    assert ended_at(tied) == 13


def ended_at(text: str) -> int:
    (tape,) = interpret(from_text(text, "program.py")).tapes
    return next(event.at.line for event in reversed(tape.events) if isinstance(event, Raised))
