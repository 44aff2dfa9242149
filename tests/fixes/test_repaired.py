"""What goes away with a fix has to be repaired: a fix that only takes it out of sight is not offered, and not made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import tapecheck.rules.graph_kept.fixes as graph_kept_fixes
from tapecheck.check import check
from tapecheck.cli import main
from tapecheck.fixes import Effort, fixes_for
from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.edit import Change, LineMap, MovedLines, moved_lines
from tapecheck.source import from_text
from tapecheck.tape import Span

CUT = """\
import torch
from torch import nn

net, head, teacher = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
seen = []

for step in range(5):
    inputs = torch.randn(3, 4)
    hidden, aim = net(inputs), teacher(inputs)
    seen.append(aim)
    mean = hidden.tolist()
    loss = head(torch.tensor(mean)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def replacing(old: str, new: str) -> Candidate:
    """Return a candidate that says of itself that it is safe."""
    start = CUT.index(old)
    return Candidate(f"Write `{new.strip()}`", "", [Change(start, start + len(old), new)], safe=True, acts=False)


@pytest.fixture
def offers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Candidate]]:
    """Candidates for graphs that a list keeps, in the place of the project's own."""
    candidates: list[Candidate] = []

    def proposed(context: Context) -> Iterator[Candidate]:
        yield from candidates

    monkeypatch.setattr(graph_kept_fixes, "STRATEGIES", (proposed,))
    yield candidates


# As far as the analysis goes nothing is wrong with any of these: the first keeps the cut from being told of.
HIDES = ("    hidden, aim = net(inputs), teacher(inputs)\n", "    hidden, aim = torch.zeros(3, 4), 0 * inputs\n")
REPAIRS = ("    seen.append(aim)\n", "    seen.append(aim.detach())\n")


def kept(text: str) -> tuple[list[str], Effort]:
    report = check(from_text(text, "train.py"))
    effort = Effort()
    (finding,) = (one for one in report.findings if one.code == "TAPE201")
    return [fix.title for fix in fixes_for(report, finding, effort=effort)], effort


def test_the_program_has_a_cut_beside_what_is_kept() -> None:
    assert {one.code for one in check(from_text(CUT, "train.py")).findings} == {"TAPE201", "TAPE402"}


def test_a_fix_that_hides_another_finding_is_not_offered(offers: list[Candidate]) -> None:
    offers += [replacing(*HIDES), replacing(*REPAIRS)]
    titles, effort = kept(CUT)
    assert titles == [offers[1].title]
    (one,) = effort.hiding
    assert (one.title, one.finding.code, one.hidden.code, one.hidden.span.line) == (
        offers[0].title,
        "TAPE201",
        "TAPE402",
        12,
    )


def test_a_finding_that_is_repaired_along_with_it_is_no_reason_against_a_fix(offers: list[Candidate]) -> None:
    both = Candidate("Repair both", "", [], safe=True, acts=False)
    for old, new in (REPAIRS, ("hidden.tolist()", "hidden"), ("torch.tensor(mean)", "mean")):
        start = CUT.index(old)
        both.changes.append(Change(start, start + len(old), new))
    offers.append(both)
    titles, effort = kept(CUT)
    assert titles == ["Repair both"] and not effort.hiding


def test_selecting_rules_hides_nothing_either(offers: list[Candidate]) -> None:
    offers.append(replacing(*HIDES))
    report = check(from_text(CUT, "train.py"), select=["TAPE201"])
    assert fixes_for(report, report.findings[0]) == []


def test_the_command_says_which_fix_was_not_made_and_why(
    offers: list[Candidate], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offers.append(replacing(*HIDES))
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(CUT)
    assert main(["check", "--fix", "--isolated", "train.py"]) == 1
    err = capsys.readouterr().err.splitlines()
    told = f"Not made: TAPE201 train.py:11: {offers[0].title}, which hides TAPE402 on line 12 and does not repair it."
    assert [line for line in err if line.startswith("Not made")] == [told]
    assert Path("train.py").read_text() == CUT


MODULE = """\
import torch
from torch import nn

net = nn.Linear(4, 4)
seen = []


def hidden(inputs):
    out = net(inputs)
    return out


def show():
    for step in range(5):
        seen.append(hidden(torch.randn(3, 4)))


if __name__ == "__main__":
    show()
"""
IMPORTER = """\
import torch
from torch import nn
from model import hidden, net

head = nn.Linear(4, 4)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
for step in range(5):
    mean = hidden(torch.randn(3, 4)).tolist()
    loss = head(torch.tensor(mean)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_fix_that_hides_what_another_checked_file_shows_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def proposed(context: Context) -> Iterator[Candidate]:
        start = context.code.source.text.find("net(inputs)")
        if start >= 0:
            change = Change(start, start + len("net(inputs)"), "inputs * 1")
            yield Candidate("Do without the net", "", [change], safe=True, acts=False)

    monkeypatch.setattr(graph_kept_fixes, "STRATEGIES", (proposed,))
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODULE)
    # Alone, the module has nothing that the fix would hide.
    assert main(["check", "--fix", "--isolated", "--diff", "model.py"]) == 1
    assert "Do without the net" in capsys.readouterr().err
    # It is not safe, either, where another program trains by it.
    Path("train.py").write_text(IMPORTER)
    assert main(["check", "--fix", "--isolated", "model.py", "train.py"]) == 1
    assert "No fixes to make" in capsys.readouterr().err
    assert main(["check", "--fix", "--unsafe-fixes", "--isolated", "model.py"]) == 1
    err = capsys.readouterr().err
    told = (
        "Not made: TAPE201 model.py:15: Do without the net, which hides TAPE402 at train.py:8 and does not repair it."
    )
    assert [line for line in err.splitlines() if line.startswith("Not made")] == [told], err
    assert Path("model.py").read_text() == MODULE


def test_lines_are_found_again_in_two_texts() -> None:
    old = dedent(
        """\
        for x in data:
            a(x)
            b(x)
        c()
        """
    )
    new = "with d():\n    for x in data:\n        a(x)\n        b(y)\nc()\n"
    lines = moved_lines({"f.py": (old, new)})
    assert isinstance(lines, MovedLines) and isinstance(LineMap(old, ()), LineMap)
    at = [Span("f.py", line, 1, line, 2) for line in (1, 2, 3, 4)]
    assert list(lines.lines(at[3])) == [5]
    assert [lines.rewritten(span) for span in at] == [False, False, True, False]
    assert not lines.rewritten(Span("other.py", 1, 1, 1, 2))
