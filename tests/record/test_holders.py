"""What a holder keeps: its bytes, counted once, and the finding that it belongs to."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunResult, judge
from tapecheck.rules import Finding
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.source import from_text

OUTPUTS = """
    import torch

    net = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    seen = []
    for i in range(10):
        out = net(torch.randn(512, 64))
        loss = out.pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        seen.append({kept})
"""
SIZE = 512 * 64 * 4
BY_METHOD = """
    import torch

    net = torch.nn.Linear(4, 1)
    history = []

    def step(keep):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        keep(loss)

    for i in range(10):
        step(history.append)
"""
NAMESAKE = """
    import torch

    net = torch.nn.Linear(4, 1)

    def step(keep):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        keep(loss{cut})
        return loss

    def quiet():
        history = []
        for i in range(10):
            step(history.append)

    def other(history):
        loss = step(print)
        history.append(loss)

    quiet()
"""


def _judged(record: Callable[..., RunResult], text: str, directory: Path) -> list[Finding]:
    text = textwrap.dedent(text).lstrip()
    findings = check(from_text(text, "script.py")).findings
    watch = {(str(directory / "script.py"), finding.span.line) for finding in findings}
    return judge(findings, record(text, watch=watch).tape, directory=str(directory))


@pytest.mark.parametrize(("kept", "copies"), [("out", 1), ("loss", 0), ("out.view(-1)", 1), ("(out, out[0])", 1)])
def test_kept_tensors_count_once(record: Callable[..., RunResult], tmp_path: Path, kept: str, copies: int) -> None:
    (finding,) = [one for one in _judged(record, OUTPUTS.format(kept=kept), tmp_path) if one.code == "TAPE201"]
    assert finding.evidence is not None and finding.evidence.measured["saved_bytes"][-1] == 0
    count, own = finding.evidence.measured["iterations"][-1], finding.evidence.measured["own_bytes"][-1]
    # The newest one is of the iteration that has just run.
    assert (count - 1) * SIZE * copies <= own <= count * (SIZE * copies + 64)
    assert ("kept tensors themselves" in finding.evidence.detail) == bool(copies)


def test_what_a_method_stores_is_the_finding_of_its_call(record: Callable[..., RunResult], tmp_path: Path) -> None:
    (finding,) = [one for one in _judged(record, BY_METHOD, tmp_path) if one.code == "TAPE201"]
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed"


def test_another_variable_of_that_name_confirms_nothing(record: Callable[..., RunResult], tmp_path: Path) -> None:
    for finding in _judged(record, NAMESAKE.format(cut=".detach()"), tmp_path):
        assert finding.evidence is None or finding.evidence.verdict != "confirmed"


METER = """
    import torch

    net = torch.nn.Linear(4, 1)

    class Meter:
        def __init__(self):
            self.total = self.last = 0

        def update(self, value):
            self.total += value
            self.last = value

    class Trainer:
        def __init__(self):
            self.meters = {made}

        def run(self):
            for i in range(10):
                loss = net(torch.randn(8, 4)).pow(2).mean()
                loss.backward()
                self.note(loss)

        def note(self, loss):
            self.meters{reached}.update(loss)

    Trainer().run()
"""


@pytest.mark.parametrize(
    ("made", "reached"),
    [
        ("Meter()", ""),
        ('{"loss": Meter()}', '["loss"]'),
        ("[Meter(), Meter()]", "[1]"),
        ('{"train": {"loss": Meter()}}', '["train"]["loss"]'),
        ('{"train": [Meter()]}', '["train"][0]'),
        ("(Meter(),)", "[0]"),
    ],
    ids=["by-name", "by-key", "by-index", "by-two-keys", "by-both", "in-a-tuple"],
)
def test_what_is_kept_under_a_key_confirms_its_finding(
    record: Callable[..., RunResult], tmp_path: Path, made: str, reached: str
) -> None:
    text = METER.format(made=made, reached=reached)
    (finding,) = _judged(record, text, tmp_path)
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed", finding.evidence
    lines = textwrap.dedent(text).lstrip().splitlines()
    assert finding.span.line == lines.index("        self.total += value") + 1


WINDOW = """
    from collections import deque

    import torch

    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    recent = {made}
    for step in range({steps}):
        loss = net(torch.randn(8, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {before}
        {store}
        {after}
"""


@pytest.mark.parametrize(
    ("steps", "made", "before", "store", "after", "expected"),
    [
        (40, "deque(maxlen=3)", "pass", "recent.append(loss)", "pass", "refuted"),
        (60, "deque(maxlen=10)", "pass", "recent.append(loss)", "pass", "refuted"),
        (30, "[]", "if len(recent) > 4: recent.pop(0)", "recent.append(loss)", "pass", "refuted"),
        (40, "[]", "pass", "recent.append(loss)", "recent = recent[-5:]", "refuted"),
        (40, "{}", "pass", "recent[step % 6] = loss", "pass", "refuted"),
        (40, "[]", "pass", "recent.append(loss)", "pass", "confirmed"),
        (40, "[]", "if step >= 4: continue", "recent.append(loss)", "pass", ""),
        (40, "[]", "if step % 10: continue", "recent.append(loss)", "pass", "confirmed"),
    ],
    ids=["a-deque", "a-long-deque", "popped", "sliced", "by-key", "a-list", "the-first-ones", "now-and-then"],
)
def test_what_is_kept_no_more_once_a_window_is_full_refutes_its_finding(
    record: Callable[..., RunResult], tmp_path: Path, steps: int, made: str, before: str, store: str, after: str,
    expected: str,
) -> None:  # fmt: skip
    text = WINDOW.format(steps=40, made="[]", before="pass", store="recent.append(loss)", after="pass")
    (finding,) = check(from_text(textwrap.dedent(text).lstrip(), "script.py")).findings
    text = WINDOW.format(steps=steps, made=made, before=before, store=store, after=after)
    result = record(text, watch={(str(tmp_path / "script.py"), finding.span.line)})
    (judged,) = [one for one in judge([finding], result.tape, directory=str(tmp_path)) if one.code == finding.code]
    said = judged.evidence.verdict if judged.evidence is not None else ""
    assert said == expected, judged.evidence


METERS = """
    import torch

    class Meter:
        def __init__(self):
            self.total, self.seen, self.parts = 0.0, 0.0, []

    net = torch.nn.Linear(4, 1)
    rows = [Meter(), Meter()]
    first, last = rows
    for i in range(8):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        {stored}
"""


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ("last.total += loss", "`last.total` (`rows[1].total`) kept"),
        ("first.total += loss.item(); last.total += loss", "`last.total` (`rows[1].total`) kept"),
        ("last.parts.append(loss)", "`last.parts` (`rows[1].parts`) kept"),
    ],
)
def test_one_object_has_several_names(record: Callable[..., RunResult], tmp_path: Path, stored: str, said: str) -> None:
    (finding,) = [one for one in _judged(record, METERS.format(stored=stored), tmp_path) if one.code == "TAPE201"]
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed"
    assert finding.evidence.detail.startswith(said)


def test_what_any_of_several_objects_has_is_named_so(record: Callable[..., RunResult], tmp_path: Path) -> None:
    text = METERS.replace("    first, last = rows\n", "").format(stored="rows[-1].total += loss")
    (finding,) = [one for one in _judged(record, text, tmp_path) if one.code == "TAPE201"]
    assert finding.evidence is not None and finding.evidence.detail.startswith("`rows[*].total` kept")


def test_another_object_of_the_same_names_is_another_holder(record: Callable[..., RunResult], tmp_path: Path) -> None:
    text = textwrap.dedent(METERS.format(stored="last.total += loss; first.total += loss.item()")).lstrip()
    (finding,) = [one for one in check(from_text(text, "script.py")).findings if one.code == "TAPE201"]
    other = text.replace("last.total += loss;", "last.total += 1.25;").replace("loss.item()", "loss")
    watch = {(str(tmp_path / "script.py"), finding.span.line)}
    (item,) = [
        one for one in judge([finding], record(other, watch=watch).tape, directory=str(tmp_path))
        if one.message == finding.message
    ]  # fmt: skip
    assert item.evidence is None or item.evidence.verdict != "confirmed"


CACHED = """
    import functools
    import torch

    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    @functools.lru_cache(maxsize={size})
    def features(i):
        x = torch.ones(4, 8) * i
        return net(x).tanh()

    class Model:
        @functools.lru_cache({size})
        def table(self, i):
            return net(torch.ones(4, 8) * i).relu()

    model = Model()
    for i in range(40):
        loss = {called}.pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.mark.parametrize("size", [None, 4096, 4])
@pytest.mark.parametrize(("called", "holder"), [("features(i)", "features"), ("model.table(i)", "Model.table")])
def test_what_a_function_remembers_of_its_calls_is_kept(
    record: Callable[..., RunResult], tmp_path: Path, size: int | None, called: str, holder: str
) -> None:
    found = [one for one in _judged(record, CACHED.format(size=size, called=called), tmp_path) if one.evidence]
    leaks = [(one.evidence.verdict, one.evidence.detail.split()[0]) for one in found if one.evidence]
    told = "confirmed" if called == "features(i)" else "found-by-run"
    assert leaks == ([] if size == 4 else [(told, f"`{holder}`")])


ONE_LINE = """
    import sys
    import torch
    {imported}
    net = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    meter = Meter()
    which = sys.argv[1:]
    for step in range(20):
        out = net(torch.randn(8, 4)).tanh()
        loss = out.pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        for _ in range(3): meter.seen(step)
        if "loss" in which: {loss}
        if "out" in which: {out}
"""
METERS_FILE = """
import collections

class Meter:
    def __init__(self):
        self.all = collections.defaultdict(list)

    def seen(self, step):
        self.step = step

    def update(self, **values):
        for name, value in values.items():
            self.all[name].append(value)
"""


@pytest.mark.parametrize("which", [("loss",), ("out",), ("loss", "out"), ()])
@pytest.mark.parametrize(
    ("loss", "out"),
    [
        ("meter.update(loss=loss)", "meter.update(out=out)"),
        ('step > 0 and meter.update(loss=loss)', 'meter.update(out=out) if step < 99 else None'),
        ("list(map(lambda x: meter.update(loss=x), [loss]))", "[meter.update(out=o) for o in [out]]"),
    ],
)  # fmt: skip
def test_a_call_that_was_not_made_is_not_reached_although_its_line_ran(
    record: Callable[..., RunResult], tmp_path: Path, loss: str, out: str, which: tuple[str, ...]
) -> None:
    (tmp_path / "meter.py").write_text(METERS_FILE)
    imported = "from meter import Meter"
    text = textwrap.dedent(ONE_LINE.format(imported=imported, loss=loss, out=out)).lstrip("\n")
    script = tmp_path / "script.py"
    found = [one for one in check(from_text(text, str(script))).findings if one.code == "TAPE201"]
    result = record(text, *which, watch={(str(script), one.span.line) for one in found})
    said = {
        one.facts.holder: one
        for one in judge(found, result.tape, directory=str(tmp_path))
        if isinstance(one.facts, GraphKeptFacts)
    }
    assert set(said) >= {"meter.all['loss']", "meter.all['out']"}
    for name in ("loss", "out"):
        evidence = said[f"meter.all[{name!r}]"].evidence
        assert evidence is not None and evidence.verdict == ("confirmed" if name in which else "not-reached"), name


TWO_NAMES = """
    import collections
    import torch

    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

{made}

    for i in range(10):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        {put}
"""
CONTAINERS = {"list": ("[]", "append(x)"), "deque": ("collections.deque()", "append(x)"), "set": ("set()", "add(x)")}
BOTH = {
    "remembered": (
        "def make():\n    seen = {new}\n    def log(x):\n        seen.{put}\n    return log, seen\nlog, shown = make()",
        "log(loss{cut})",
    ),
    "asked for": (
        (
            "def make():\n    seen = {new}\n    def log(x):\n        seen.{put}\n    def get():\n        return seen\n"
            "    return log, get\nlog, get = make()\nshown = get()"
        ),
        "log(loss{cut})",
    ),
    "default": ("def log(x, seen={new}):\n    seen.{put}\n    return seen", "shown = log(loss{cut})"),
    "attributes": (
        (
            "class Log:\n    def __init__(self):\n        self.shown = self.seen = {new}\n"
            "    def log(self, x):\n        self.seen.{put}\nlogs = Log()"
        ),
        "logs.log(loss{cut})",
    ),
    "objects": (
        (
            "class Log:\n    def __init__(self, seen):\n        self.seen = seen\n"
            "    def log(self, x):\n        self.seen.{put}\nshown = {new}\nlogs = Log(shown)"
        ),
        "logs.log(loss{cut})",
    ),
    "entry": ("shown = {new}\nstats = {{'loss': shown}}", "x = loss{cut}; stats['loss'].{put}"),
}


@pytest.mark.parametrize("cut", ["", ".detach()"])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("form", BOTH)
def test_what_has_two_names_is_one_finding(
    record: Callable[..., RunResult], tmp_path: Path, form: str, container: str, cut: str
) -> None:
    new, put = CONTAINERS[container]
    made, stored = (text.format(new=new, put=put, cut=cut) for text in BOTH[form])
    found = _judged(record, TWO_NAMES.format(made=textwrap.indent(made, "    "), put=stored), tmp_path)
    verdicts = [one.evidence.verdict if one.evidence is not None else "" for one in found]
    assert verdicts in ([[]] if cut else [["confirmed"], ["found-by-run"]]), found


@pytest.mark.parametrize(
    "made", ["shown = list(seen)", "shown = [*seen]", "shown = {'all': seen[:]}", "shown = tuple(seen)"]
)
def test_a_copy_of_what_is_kept_is_no_finding_of_its_own(
    record: Callable[..., RunResult], tmp_path: Path, made: str
) -> None:
    put = f"seen.append(loss)\n        {made}"
    (finding,) = _judged(record, TWO_NAMES.format(made="    seen = []", put=put), tmp_path)
    assert finding.evidence is not None and finding.evidence.verdict == "confirmed" and "`seen`" in finding.message


def test_what_is_kept_in_two_places_is_two_findings(record: Callable[..., RunResult], tmp_path: Path) -> None:
    # Which of the two a text fills by name makes no difference.
    hidden = "getattr(shown, 'app' + 'end')(loss); shown = shown"
    text = TWO_NAMES.format(made="    seen, shown = [], []", put=f"seen.append(loss)\n        {hidden}")
    assert len(_judged(record, text, tmp_path)) == 2


LATE = """
import collections
import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
memory, kept = [], {container}
for step in range({begins} + 30):
    memory.append(torch.randn(4))
    if step < {begins}:
        continue
    loss = model(torch.stack(memory[-8:])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {how}
"""


@pytest.mark.parametrize("begins", [0, 2, 3, 9, 40])
@pytest.mark.parametrize(
    ("container", "how", "found"),
    [
        ("[]", "kept.append(loss)", True),
        ("{}", "kept[step] = loss", True),
        ("[]", "kept.append(loss.item())", False),
        ("collections.deque(maxlen=3)", "kept.append(loss)", False),
        ("[]", "kept.append(loss); del kept[:-3]", False),
        ("{}", "kept[step % 3] = loss", False),
    ],
)  # fmt: skip
def test_loops_that_train_late_are_looked_at_from_then_on(
    record: Callable[..., RunResult], begins: int, container: str, how: str, found: bool
) -> None:
    tape = record(LATE.format(begins=begins, container=container, how=how)).tape
    assert [finding.code for finding in judge([], tape)] == ["TAPE201"] * found
