"""`exec` and `eval`: what their text does is the program's own doing where it is written out, and else may be anything.

torch judges each program.
"""

from __future__ import annotations

import itertools
import warnings

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

DOES = {
    "freezes": "x.requires_grad_(False)",
    "cuts": "x = x.detach()",
    "switches on": "d.requires_grad_()",
    "grows": "x = x * 2",
    "reads": "float(x.sum())",
    "changes": "h.add_(1)",
    "clears": "x.grad = None",
    "imports": "import math",
    "several": "y = x * 1; y = y.detach(); x = y",
    "walks": "loss.backward()",
    "is no Python": "x = = 2",
}
RUN = {
    "exec": "exec({!r})",
    "in a function": "def f(x=x, d=d, h=h, loss=loss):\n    exec({!r})\nf()",
    "bound": "code = {!r}\nexec(code)",
    "joined": "exec({!r} + '')",
    "compiled": "exec(compile({!r}, 'made', 'exec'))",
    "with names": "exec({!r}, globals())",
    "of a file": "exec(open(FILE).read())",
    "eval": "eval({!r})",
    "eval of a file": "eval(open(FILE).read())",
    "value of a file": "n = eval(open(FILE).read())",
}
THEN = {
    "changed": "x.add_(1)",
    "walked": "loss.backward()",
    "data walked": "(d * 2).sum().backward()",
    "gradient": "x.grad.zero_()",
    "fresh": "(x * 2).sum().backward()\nx.grad.zero_()",
}
HEAD = """\
import torch
x = torch.ones(3, requires_grad=True)
d = torch.ones(3)
h = x.exp()
loss = h.sum()
"""


def _fits(way: tuple[str, str]) -> bool:
    """Return whether a text is an expression, where it is evaluated."""
    return "eval" not in RUN[way[1]] or not any(word in DOES[way[0]] for word in (" = ", "import"))


def _program(does: str, run: str, then: str) -> str:
    return f"{HEAD}{RUN[run].format(DOES[does])}\n{THEN[then]}\n"


def _raised_at(program: str, text: str) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(program.replace("open(FILE).read()", repr(text)), "program.py", "exec"), {})
        except Exception as error:
            at, line = error.__traceback__, 0
            while at is not None:
                line = at.tb_lineno if at.tb_frame.f_code.co_filename == "program.py" else line
                at = at.tb_next
            return line
    return 0


@pytest.mark.parametrize(("does", "run"), [*filter(_fits, itertools.product(DOES, RUN))])
def test_a_certain_error_is_raised(does: str, run: str) -> None:
    wrong = []
    for then in THEN:
        program = _program(does, run, then)
        found = check(from_text(program, "run.py")).findings
        sure = {one.span.line for one in found if one.certain and one.severity == "error"}
        raised = _raised_at(program, DOES[does])
        wrong += [then] if sure - {raised} else []
    assert wrong == []


@pytest.mark.parametrize("does", DOES)
@pytest.mark.parametrize("then", THEN)
def test_what_a_written_text_does_is_known(does: str, then: str) -> None:
    """What is told of the same statements without `exec` is told with it."""
    program = _program(does, "exec", then)
    plain = program.replace(f"exec({DOES[does]!r})", DOES[does].replace("= =", "="))
    if does == "is no Python":
        return

    def found(text: str) -> set[tuple[str, int, bool]]:
        return {(one.code, one.span.line, one.certain) for one in check(from_text(text, "run.py")).findings}

    assert found(program) == found(plain)
