"""Programs of older versions of Python: what no longer parses is read as it was meant."""

from __future__ import annotations

import ast
import random

import pytest

from tapecheck.check import check
from tapecheck.source import from_text, older

PROGRAM = """import sys
import torch
from torch import nn

net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def load(path, log=sys.stderr):
    try:
        return torch.load(path)
    {caught}
        {said}
        {raised}


for step, x in enumerate(load("train.pt")):
    {put}
    loss = net(x).pow(2).mean()
    loss.backward()
    if {test}:
        {said}
    {clear}
    optimizer.step()
    if step: {said}
    else: {said}
net.eval()
for step, x in enumerate(load("test.pt")):
    {put}
    loss = net(x)
    {said}
"""
FORMS: dict[str, list[tuple[str, str]]] = {
    "caught": [
        ("except IOError, error:", "except IOError as error:"),
        ("except (IOError, OSError), error:", "except (IOError, OSError) as error:"),
    ],
    "said": [
        ('print "step"', 'print("step")'), ("print step, x", "print(step, x)"),
        ('print "%d" % step,', 'print("%d" % step,)'),
        ('print "a"; print step', 'print("a"); print(step)'), ("print -step  # less", "print(-step)  # less"),
        ('print "#", step  # of', 'print("#", step)  # of'), ("print [step, 1]", "print([step, 1])"),
        ("print 'it is', step, \\\n            'th'", "print('it is', step, \\\n            'th')"),
        ("print 'a%d' % (step,\n        1L)", "print('a%d' % (step,\n        1))"),
    ],
    "raised": [
        ('raise ValueError, "no"', 'raise ValueError("no")'),
        ('raise ValueError, "no %s" % path', 'raise ValueError("no %s" % path)'),
    ],
    "put": [
        ("x = x.cuda(async=True)", "x = x.cuda(non_blocking=True)"),
        ("async = x; x = async", "there = x; x = there"),
    ],
    "test": [("step <> 3", "step != 3"), ("step < 30L", "step < 30")],
    "clear": [("optimizer.zero_grad()", "optimizer.zero_grad()"), ("pass", "pass")],
}  # fmt: skip


def written(draw: random.Random) -> tuple[str, str]:
    """Return a program of an older version of Python, and the same as this one has it."""
    chosen = {name: draw.choice(forms) for name, forms in FORMS.items()}
    old = PROGRAM.format(**{name: form[0] for name, form in chosen.items()})
    return old, PROGRAM.format(**{name: form[1] for name, form in chosen.items()})


def told(text: str) -> list[tuple[str, int, bool]]:
    found = check(from_text(text, "train.py")).findings
    return [(finding.code, finding.span.line, finding.certain) for finding in found]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_found_is_the_same(seed: int) -> None:
    old, new = written(random.Random(seed))
    with pytest.raises(SyntaxError):
        ast.parse(old)
    assert told(old) == told(new) and "TAPE302" in [code for code, *_ in told(old)]
    source = from_text(old, "train.py")
    assert source.error is not None and source.blanked
    assert "__skipped__" not in ast.unparse(source.tree)
    kept = [(type(node).__name__, node.lineno) for node in ast.walk(source.tree) if isinstance(node, ast.stmt)]
    assert kept == [
        (type(node).__name__, node.lineno) for node in ast.walk(ast.parse(new)) if isinstance(node, ast.stmt)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_no_fix_of_such_a_file_is_safe(seed: int) -> None:
    from tapecheck.fixes import fixes_for

    report = check(from_text(written(random.Random(seed))[0], "train.py"))
    for finding in report.findings:
        assert not any(fix.applicability == "safe" for fix in fixes_for(report, finding))


@pytest.mark.parametrize("text", [
    "print step,", "x = print", "def async(x): return x\nprint async(1)", "exec 'a'", "print >>f, x, 'a'", "print",
    '"""\nprint x\n"""\nprint x', "x = 'a <> b'\nprint x", "except X, e:", "raise X, y, z", "if a <> b: print a",
])  # fmt: skip
def test_odd_ones_end_and_keep_their_lines(text: str) -> None:
    source = from_text(text, "odd.py")
    assert source.lines == text.split("\n")
    assert isinstance(source.tree, ast.Module)


def test_a_text_that_looks_like_one_stays_as_it_is() -> None:
    source = from_text('x = "a <> b"\ny = "print 1L"\nprint x, y\n', "text.py")
    texts = [node.value for node in ast.walk(source.tree) if isinstance(node, ast.Constant)]
    assert texts == ["a <> b", "print 1L"]


def test_many_statements_on_a_line_that_stays_wrong_are_each_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, parses = [0], older._parses

    def counted(lines: list[str]) -> bool:
        tried[0] += 1
        # Trying each end of each with each of the others took twice as long for every further one.
        assert tried[0] < 1000
        return parses(lines)

    monkeypatch.setattr(older, "_parses", counted)
    assert older.translated(["; ".join(["print 'a#'"] * 60) + " @@"], 0) == {}
    line = "; ".join(["print 'a#;'"] * 60)
    assert older.translated([line], 0) == {0: line.replace("print '", "print('").replace("#;'", "#;')")}
