"""An internal error costs the path or the start it happens in; what the others show is reported, with a note."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from lsprotocol import types as t

from tapecheck import check as check_module
from tapecheck.check import Memory, Report, check, faults_of
from tapecheck.cli.checking import CheckOptions, check_file
from tapecheck.cli.main import main
from tapecheck.interpret.explore.exploration import Exploration
from tapecheck.interpret.machine import Machine
from tapecheck.lsp.client import Client
from tapecheck.lsp.convert import Converter
from tapecheck.lsp.session import Session
from tapecheck.source import from_text, read_source

PROGRAM = dedent("""
    import torch
    from torch import nn

    net = nn.Linear(3, 1)

    def first(x):
        loss = net(x).sum()
        loss.backward()
        loss.backward()

    def second(x):
        fault = slice(1, 2, 3)
        loss = net(x).sum()
        loss.backward()
        loss.backward()

    def third(x):
        loss = net(x).sum()
        loss.backward()
        loss.backward()
    """)
FOUND = [("TAPE101", 10), ("TAPE101", 21)]

pytestmark = pytest.mark.internal_errors


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call of `slice` raises an error that nothing reckons with."""
    before = Machine.call

    def call(self, function, args, kwargs, node):  # type: ignore[no-untyped-def]
        if getattr(getattr(node, "func", None), "id", "") == "slice":
            raise LookupError("no such handler")
        return before(self, function, args, kwargs, node)

    monkeypatch.setattr(Machine, "call", call)


def places(report: Report) -> list[tuple[str, int]]:
    return sorted((one.code, one.span.line) for one in report.findings)


@pytest.mark.usefixtures("broken")
def test_an_error_in_one_function_leaves_the_findings_of_the_others() -> None:
    report = check(from_text(PROGRAM, "train.py"))
    assert places(report) == FOUND
    (fault,) = faults_of(report)
    assert fault.line == 12
    assert fault.message.startswith("internal error while analysing `second`: LookupError: no such handler at ")
    assert fault.message.endswith("; the rest of the file was checked")


@pytest.mark.usefixtures("broken")
def test_what_was_found_before_the_error_stands() -> None:
    report = check(
        from_text(PROGRAM.replace("    fault = slice(1, 2, 3)\n", "") + "\n\nfirst(torch.ones(2, 3))\n", "a.py")
    )
    assert not faults_of(report)
    text = "import torch\nw = torch.ones(2, requires_grad=True)\nw.mul_(2)\nslice(1)\n"
    whole = check(from_text(text.replace("slice(1)", "print(1)"), "train.py"))
    report = check(from_text(text, "train.py"))
    assert places(report) == places(whole) == [("TAPE104", 3)]


def test_an_error_of_the_exploration_costs_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Exploration._note

    def note(self, run):  # type: ignore[no-untyped-def]
        if self.name == "second":
            raise ZeroDivisionError("half-way")
        before(self, run)

    monkeypatch.setattr(Exploration, "_note", note)
    report = check(from_text(PROGRAM, "train.py"))
    assert places(report) == FOUND
    assert [(one.line, "ZeroDivisionError: half-way" in one.message) for one in faults_of(report)] == [(12, True)]


def test_an_error_of_a_rule_costs_the_starts_that_it_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    before = check_module.judge

    def judge(tapes, **options):  # type: ignore[no-untyped-def]
        if tapes and tapes[0].started == "second":
            raise ValueError("not judged")
        return before(tapes, **options)

    monkeypatch.setattr(check_module, "judge", judge)
    report = check(from_text(PROGRAM, "train.py"))
    assert places(report) == FOUND
    assert len(faults_of(report)) == 1


@pytest.mark.usefixtures("broken")
def test_a_failed_start_is_tried_again_and_not_remembered() -> None:
    memory = Memory()
    for _ in range(2):
        report = check(from_text(PROGRAM, "train.py"), memory=memory)
        assert places(report) == FOUND
        assert len(faults_of(report)) == 1


@pytest.mark.usefixtures("broken")
def test_the_command_line_reports_both_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM)
    assert main(["check", "--no-cache", "--isolated", "--output-format", "json", str(file)]) == 2
    rows = json.loads(capsys.readouterr().out)
    codes = [row["code"] for row in rows]
    assert codes.count("TAPE101") == 2
    assert codes.count("internal-error") == 1
    checked = check_file(str(file), CheckOptions())
    assert [one.line for one in checked.problems] == [12]
    assert main(["check", "--no-cache", "--isolated", "--output-format", "sarif", str(file)]) == 2
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [row["ruleId"] for row in run["results"]] == ["TAPE101", "TAPE101"]
    (invocation,) = run["invocations"]
    (note,) = invocation["toolExecutionNotifications"]
    assert note["descriptor"] == {"id": "internal-error"}
    assert note["message"]["text"].startswith("internal error while analysing `second`: ")
    assert note["locations"][0]["physicalLocation"]["region"]["startLine"] == 12
    assert main(["check", "--no-cache", "--isolated", "--exit-zero", str(file)]) == 2
    shown = capsys.readouterr().out
    assert shown.count("error[TAPE101]") == 2
    assert "error[internal-error]: internal error while analysing `second`: " in shown
    assert f"--> {file}:12\n" in shown


@pytest.mark.usefixtures("broken")
def test_an_editor_shows_both() -> None:
    session, uri = Session(), "file:///p/train.py"
    session.open(uri, "/p/train.py", PROGRAM, 1)
    snapshot = session.snapshot(uri)
    assert snapshot is not None
    analysis = session.analyse(snapshot)
    assert analysis is not None
    converter = Converter(session, Client(), "utf-16")
    shown = [(one.code, one.severity, one.range.start.line + 1) for one in converter.diagnostics(analysis)]
    error, warning = t.DiagnosticSeverity.Error, t.DiagnosticSeverity.Warning
    assert sorted(shown) == [("TAPE101", error, 10), ("TAPE101", error, 21), ("internal-error", warning, 12)]


CONTAINERS = (
    "[x, 1]", "(x, 1)", "{'a': x}", "{x, 1}", "{'a': x}.keys()", "{'a': x}.values()", "{'a': x}.items()",
    "net._parameters", "net._modules", "net._modules.keys()", "vars(net)", "own.__dict__", "deque([x], maxlen=2)",
    "queue.Queue()", "Counter('ab')", "defaultdict(list)", "nn.ModuleList([net])", "net.state_dict()",
)  # fmt: skip
USES = (
    "r[u]", "r[True]", "r[1:]", "r[x > 0]", "r[u] = x", "r[1:] = x", "r[u:] = [x]", "del r[u]", "del r[u:]",
    "r += [x]", "r += u", "r += (y for y in u)", "r *= u", "r |= {'b': x}", "r |= {1}", "r - {1}", "r | u",
    "r.sort()", "r.append(x)", "r.extend(u)", "r.clear()", "r.copy()", "r.pop(u)", "r.update(u)", "r.popitem()",
    "r.move_to_end(u)", "r.setdefault(u, x)", "r.update({u: x})", "r.unheard_of(x)", "list(reversed(r))", "sorted(r)",
    "copy.deepcopy(r)", "copy.copy(r)", "[*r]", "dict(r)", "set(r)", "len(r)", "a, *b = r", "max(r)", "u(r)", "u in r",
    "r == u", "isinstance(r, dict)", "f'{r}'",
)  # fmt: skip


@pytest.mark.parametrize("container", CONTAINERS)
def test_what_stands_for_a_container_does_what_one_does(container: str) -> None:
    head = "import copy, queue, sys\nimport torch\nfrom torch import nn\n"
    head += "from collections import Counter, defaultdict, deque\n\nclass Own:\n    a = 1\n\n"
    starts = [
        f"def use_{number}(u, x, own=Own()):\n    net = nn.Linear(2, 2)\n    loss = net(x).sum()\n    r = {container}\n"
        f"    {use}\n    loss.backward()\n\n"
        for number, use in enumerate(USES)
    ]
    report = check(from_text(head + "".join(starts), "uses.py"))
    assert [USES[int(one.start.removeprefix("use_"))] for one in report.interpretation.faults] == []
    assert len({tape.started for tape in report.interpretation.tapes} - {""}) == len(USES), "each was run"


LEFT = {
    "making.py": "def make(args):\n    from world import World\n\n    env = World(found, args)\n"
    "    args.players = env.n\n    args.shapes = [env.spaces[i].shape[0] for i in range(args.agents)]\n"
    "    return env, args\n",
    "world.py": "class World(gym.Env):\n    def __init__(self, world, args):\n        self.agents = world.policies\n"
    "        self.n = len(world.policies)\n        for agent in self.agents:\n            if len(total) > 1:\n"
    "                if all([isinstance(space, Discrete) for space in total]):\n                    pass\n",
    "task.py": "import making\nimport torch\n\n\nclass Task:\n    def __init__(self, args, workers=cpu_count()):\n"
    "        self.env, self.args = making.make(args=args)\n\n    def run(self, step):\n"
    "        for i in range(self.args.agents, self.args.players):\n            actions.append([0, np.random.rand()])\n"
    "            for agent in self.agents:\n                loss = q_loss\n",
}


def test_a_loop_that_an_exception_has_led_out_of_has_no_fault(tmp_path: Path) -> None:
    for name, text in LEFT.items():
        (tmp_path / name).write_text(text)
    report = check(read_source(str(tmp_path / "task.py")))
    assert report.interpretation.faults == []


LEFT_OPEN = """
import torch
from torch import nn
from elsewhere import dataset

def endless(loader):
    it = iter(loader)
    while True:
        try:
            {body}
            yield found
        {handler}
            it = iter(loader)

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
batches = endless(torch.utils.data.DataLoader(dataset))
{loop}
    loss = net({one}).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("body", ["found = next(it)", "found = dataset.more(next(it))", "found = next(it)[0]"])
@pytest.mark.parametrize(
    "handler", ["except StopIteration:", "except (StopIteration, KeyError):", "except:", "finally:"]
)
@pytest.mark.parametrize(("loop", "one"), [("for step in range(90):", "next(batches)"), ("for x in batches:", "x")])
def test_a_generator_that_nothing_goes_on_with_is_closed_quietly(
    body: str, handler: str, loop: str, one: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    check(from_text(LEFT_OPEN.format(body=body, handler=handler, loop=loop, one=one), "train.py"))
    gc.collect()
    assert ignored == []
