"""Every construct of the language and of the graph: the dry run raises where torch raises, and nowhere else."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.interpret import interpret
from tapecheck.source import from_text
from tapecheck.tape import Raised
from tests.interpret.programs import companions, conditions, graphs, language, training, transforms, views
from tests.interpret.truth import expected_line, full, torch_raises_at

PROGRAMS = {
    **language.PROGRAMS, **graphs.PROGRAMS, **training.PROGRAMS, **views.PROGRAMS, **transforms.PROGRAMS,
    **companions.PROGRAMS,
}  # fmt: skip


def raised_at(source: str) -> int | None:
    """The line at which the likeliest way through a program ends in an exception."""
    tape = interpret(from_text(source, "program.py")).tapes[0]
    uncaught = [event for event in tape.events if isinstance(event, Raised) and not event.caught]
    return uncaught[-1].at.line if uncaught else None


@pytest.mark.parametrize("name", PROGRAMS)
def test_dry_run_raises_where_the_program_says(name: str) -> None:
    source = full(PROGRAMS[name])
    assert raised_at(source) == expected_line(source)


@pytest.mark.parametrize("name", conditions.PROGRAMS)
def test_no_way_through_a_program_that_cannot_be_gone_is_reported(name: str) -> None:
    report = check(from_text(full(conditions.PROGRAMS[name]), "program.py"))
    assert [(finding.code, finding.span.line) for finding in report.findings if finding.severity == "error"] == []


@pytest.mark.parametrize("name", training.PROGRAMS)
def test_errors_are_found_where_torch_raises_and_nowhere_else(name: str) -> None:
    source = full(training.PROGRAMS[name])
    line = expected_line(source)
    report = check(from_text(source, "program.py"))
    found = {finding.span.line for finding in report.findings if finding.severity == "error"}
    assert found == (set() if line is None else {line})


@pytest.mark.parametrize("name", conditions.PROGRAMS)
def test_torch_runs_those_programs(name: str, truth: dict[str, tuple[int | None, str]]) -> None:
    assert truth[name] == (None, "")


@pytest.fixture(scope="module")
def truth() -> dict[str, tuple[int | None, str]]:
    pytest.importorskip("torch")
    programs = {**PROGRAMS, **conditions.PROGRAMS}
    return torch_raises_at({name: full(program) for name, program in programs.items()})


@pytest.mark.parametrize("name", PROGRAMS)
def test_torch_raises_where_the_program_says(name: str, truth: dict[str, tuple[int | None, str]]) -> None:
    line, message = truth[name]
    assert line == expected_line(full(PROGRAMS[name])), message


@pytest.mark.parametrize(
    "slicing",
    ["[1, 2][::0]", "(1, 2)[::-n]", "'text'[::n]", "range(3)[::n]", "nn.Sequential(net)[::n]", "[1, 2][::False]"],
)
def test_a_slice_that_goes_nowhere_raises_and_breaks_nothing(slicing: str) -> None:
    head = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 1)\nn = 0\nrows = [1, 2]\n"
    twice = "loss = net(torch.ones(3, 2)).sum()\nloss.backward()\nloss.backward()\n"
    for statement in (f"found = {slicing}", "rows[::n] = [3]", "del rows[::n]"):
        # Python raises a ValueError here; what nobody looks out for is passed over.
        report = check(from_text(f"{head}{statement}\n{twice}", "still.py"))
        assert [finding.code for finding in report.findings] == ["TAPE101"], statement
    caught = (
        f"try:\n    found = {slicing}\nexcept ValueError:\n    {twice.strip().replace(chr(10), chr(10) + '    ')}\n"
    )
    report = check(from_text(head + caught, "still.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]


@pytest.mark.parametrize(("first", "raises"), [("", True), ("next(it)\n    ", False), ("it.send(None)\n    ", False)])
def test_a_generator_that_was_not_started_takes_nothing_but_none(first: str, raises: bool) -> None:
    program = f"""
def totals():
    total = 0.0
    while True:
        total += yield total


it = totals()
w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
try:
    {first}it.send(1.0)
    loss.backward()
except TypeError:
    pass
"""
    found = [(one.code, one.certain) for one in check(from_text(full(program), "program.py")).findings]
    assert found == ([] if raises else [("TAPE101", True)])
