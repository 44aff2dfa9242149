"""Where the work limit ends an analysis the user is told, and what can be bounded without losing anything is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tapecheck.check import check, limits_of
from tapecheck.interpret import limits
from tapecheck.interpret.explore.exploration import Budget, Exploration
from tapecheck.interpret.explore.program import interpret
from tapecheck.interpret.explore.results import Explored
from tapecheck.interpret.explore.wanted import Wanted
from tapecheck.interpret.library import nnlib
from tapecheck.interpret.python.imports import Imports
from tapecheck.source import from_text
from tapecheck.source.modules import SOURCES, Modules
from tapecheck.source.project import Setup

HEAD = "import torch\nfrom torch import nn\nnet = nn.Linear(2, 1)\nx = torch.ones(4, 2)\n"
TWICE = "loss = net(x).mean()\nloss.backward()\nloss.backward()\n"


def nested(depth: int) -> str:
    loops = "".join(f"{'    ' * level}for i{level} in range(5):\n" for level in range(depth))
    return f"{HEAD}{loops}{'    ' * depth}y = net(x).mean()\n{TWICE}"


def call_tree(depth: int) -> str:
    functions = "def f0(x):\n    return net(x).mean()\n" + "".join(
        f"def f{level}(x):\n    f{level - 1}(x)\n    return f{level - 1}(x)\n" for level in range(1, depth)
    )
    return f"{HEAD}{functions}f{depth - 1}(x)\n{TWICE}"


@pytest.mark.parametrize("depth", [2, 7, 8, 12, 16])
def test_nested_loops_hide_nothing_that_comes_after_them(depth: int) -> None:
    report = check(from_text(nested(depth), "nested.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    assert limits_of(report) == []


def test_a_program_that_is_not_followed_to_its_end_says_where() -> None:
    report = check(from_text(call_tree(40), "tree.py"))
    assert report.findings == []
    (limit,) = limits_of(report)
    assert "stopped here: work limit reached" in limit.message
    assert 1 < limit.line <= len(report.source.lines)


def batches(condition: str) -> str:
    return f"""{HEAD}
def batches(samples, size, most):
    batch, count = [], 0
    while True:
        for sample in samples:
            batch.append(sample)
            if {condition}:
                continue
            yield batch
            batch = []
            count += 1
            if count == most:
                return

def train(samples, size, most):
    for batch in batches(samples, size, most):
        loss = sum(net(one).mean() for one in batch)
        loss.backward()
        loss.backward()
"""


def test_a_generator_that_yields_nothing_is_left_like_any_loop() -> None:
    report = check(from_text(batches("len(batch) < size"), "batches.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    assert limits_of(report) == []
    assert report.interpretation.work < 4 * limits.LOOP_WORK


def test_a_generator_may_go_round_often_before_it_yields() -> None:
    report = check(from_text(batches("len(batch) < 200"), "batches.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]


def call_chain(depth: int) -> str:
    functions = "def f0(x):\n    return net(x).tanh().mean()\n" + "".join(
        f"def f{level}(x):\n    return f{level - 1}(x)\n" for level in range(1, depth)
    )
    return f"{HEAD}{functions}loss = f{depth - 1}(x)\nloss.backward()\nloss.backward()\n"


def test_calls_too_deep_in_other_calls_are_told() -> None:
    report = check(from_text(call_chain(40), "chain.py"))
    assert ([finding.code for finding in report.findings], limits_of(report)) == (["TAPE101"], [])
    report = check(from_text(call_chain(400), "chain.py"))
    assert report.findings == []
    (limit,) = limits_of(report)
    assert limit.message == "calls too deep in other calls in the module: what they do is unknown"
    assert report.source.lines[limit.line - 1].strip().startswith("return f")


def test_a_tree_that_is_gone_through_is_not_cut_short() -> None:
    """How deep a structure of the user's lies nobody knows; a few steps down show what there is to see."""
    program = "def walk(tree, x):\n    for child in tree.children:\n        x = walk(child, net(x))\n    return x\n"
    report = check(from_text(f"{HEAD}{program}loss = walk(root, x).mean()\nloss.backward()\n", "tree.py"))
    assert limits_of(report) == []


def test_functions_that_were_not_started_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOTAL_BUDGET", 100)
    functions = "".join(
        f"def step{number}(model, x):\n    loss = model(x).sum()\n    loss.backward()\n" for number in range(6)
    )
    report = check(from_text(f"import torch\n{functions}", "steps.py"))
    messages = [limit.message for limit in limits_of(report)]
    assert any("`step" in message and "not checked on their own" in message for message in messages), messages


def test_conditions_that_were_not_tried_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FURTHER_WORK", 0)
    monkeypatch.setattr(limits, "FURTHER_TIMES", 0)
    monkeypatch.setattr(limits, "PROBE_TIMES", 0)
    undecided = "if len(sys.argv) > 5:\n    pass\nelse:\n    loss.backward()\n"
    program = f"import sys\n{HEAD}loss = net(x).mean()\n{undecided}"
    report = check(from_text(program + "loss.backward()\n", "untried.py"))
    assert [limit.message for limit in limits_of(report)] == [
        "work limit reached in the module: may miss a second backward; `tapecheck check --effort 4` looks further"
    ]


def test_a_limit_in_another_file_is_told_of_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FURTHER_WORK", 0)
    monkeypatch.setattr(limits, "FURTHER_TIMES", 0)
    monkeypatch.setattr(limits, "PROBE_TIMES", 0)
    undecided = "    if len(sys.argv) > 5:\n        pass\n    else:\n        loss.backward()\n"
    lib = tmp_path / "lib.py"
    lib.write_text("import sys\n" + "\n" * 40 + f"def train(loss):\n{undecided}")
    source = from_text(f"import lib\n{HEAD}loss = net(x).mean()\nlib.train(loss)\n", str(tmp_path / "train.py"))
    (limit,) = limits_of(check(source))
    assert limit.line <= len(source.lines)
    assert limit.message.startswith(f"work limit reached in the module at {lib}:43: may miss")


def test_more_effort_looks_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOTAL_BUDGET", 200)
    slow = "for i in range(50):\n    if i == 49:\n        x = x + 1\n"
    source = from_text(f"{HEAD}{slow * 8}{TWICE}", "slow.py")
    (limit,) = limits_of(check(source))
    assert limit.message.endswith("`tapecheck check --effort 4` looks further")
    report = check(source, project=Setup(effort=100).project_of(source.path))
    assert ([finding.code for finding in report.findings], limits_of(report)) == (["TAPE101"], [])


def test_what_can_only_make_a_finding_less_certain_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FURTHER_WORK", 0)
    monkeypatch.setattr(limits, "FURTHER_TIMES", 0)
    monkeypatch.setattr(limits, "PROBE_TIMES", 0)
    program = f"import sys\n{HEAD}if len(sys.argv) > 5:\n    x = x * 2\n{TWICE}"
    report = check(from_text(program, "certainty.py"))
    assert ([finding.code for finding in report.findings], limits_of(report)) == (["TAPE101"], [])


def test_work_grows_with_the_program_and_not_with_its_ways() -> None:
    """Twenty undecided conditions on which nothing hangs are answered once."""
    conditions = "".join(f"if len(sys.argv) > {number}:\n    print({number})\n" for number in range(20))
    report = check(from_text(f"import sys\n{HEAD}{conditions}{TWICE}", "conditions.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    assert report.interpretation.runs == 1


def test_functions_that_only_collect_leave_the_work_to_those_that_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COLLECTING_BUDGET", 400)
    collecting = "".join(
        f"def gather{number}(rows):\n    out = []\n    for row in rows:\n        out.append(row)\n    return out\n"
        for number in range(40)
    )
    training = "def optimise(model, x):\n    model.train()\n    loss = model(x).sum()\n" + "    loss.backward()\n" * 2
    report = check(from_text(f"import torch\n{collecting}{training}", "steps.py"))
    assert [finding.code for finding in report.findings] == ["TAPE101"]
    assert report.interpretation.entries[0] == "optimise"
    (limit,) = limits_of(report)
    assert "`gather" in limit.message and "not checked on their own" in limit.message


def test_what_is_collected_is_found_behind_a_function_that_trains() -> None:
    """A function without a backward is still looked at: what it keeps, its caller keeps."""
    program = (
        "import torch\ndef optimise(model, x):\n    model(x).sum().backward()\n"
        "def evaluate(model, batches):\n    model.eval()\n    losses = []\n    for x, y in batches:\n"
        "        losses.append(torch.nn.functional.mse_loss(model(x), y))\n    print(len(losses))\n"
    )
    report = check(from_text(program, "both.py"))
    assert report.interpretation.entries == ["optimise", "evaluate"]
    assert [finding.code for finding in report.findings] == ["TAPE201"]


def test_a_way_that_answers_otherwise_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that leads to far more code than the likelier one does not take all the work of the file."""
    monkeypatch.setattr(limits, "FURTHER_WORK", 200)
    monkeypatch.setattr(limits, "TURNED_BUDGET", 1_000)
    tree = call_tree(12).removeprefix(HEAD)
    program = f"import sys\n{HEAD}if len(sys.argv) > 5:\n    pass\nelse:\n" + "".join(
        f"    {line}\n" for line in tree.splitlines()
    )
    log: list[Explored] = []
    interpret(from_text(program + TWICE, "rare.py"), log=log)
    first, *others = log
    assert first.work < 300
    assert [way.work for way in others if way.work > 900], "the other answer was not tried"
    assert all(way.work <= 1_000 + limits.RUN_WORK + 50 for way in others)


def test_a_way_that_the_limit_ends_has_not_tried_its_condition() -> None:
    """What the other answer leads to may lie behind the end of the way."""
    undecided = "if len(sys.argv) > 5:\n    pass\nelse:\n    net(x).sum().backward()\n"
    source = from_text(f"import sys\n{HEAD}{undecided}{TWICE}", "cut.py")
    whole: list[Explored] = []
    interpret(source, log=whole)
    assert len(whole) > 1 and not any(way.tape.untried for way in whole)
    project = Imports(Modules(source.path, SOURCES, open_files={}))
    budget = Budget(whole[0].work + 5)
    ways = Exploration(source, project, None, budget, None, Wanted(None))
    ways.explore()
    found = ways.found
    assert len(found.tapes) == 2
    assert {line for _, line, _ in found.tapes[0].untried} == {6}
    assert [one.kind for one in found.cut_short] == ["paths"]


def test_hooks_that_nobody_knows_do_not_run_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would be given what the one before was given, within itself: exponential in the depth of calls."""
    program = (
        "import torch\ndef train(model, make, x):\n    for module in model.modules():\n"
        "        module.register_forward_hook(make(module))\n    model.train()\n"
        "    loss = model(x).mean()\n    loss.backward()\n    loss.backward()\n"
    )
    runs = 0
    ran = nnlib.Modules.ran

    def counted(*given: Any) -> None:
        nonlocal runs
        runs += 1
        assert runs < 100, "hooks run for one another"
        ran(*given)

    monkeypatch.setattr(nnlib.Modules, "ran", counted)
    assert [finding.code for finding in check(from_text(program, "hooks.py")).findings] == ["TAPE101"]


ROOM = Path(limits.__file__).parent
TREES = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(ROOM.rglob("*.py"))}


def number(node: ast.AST | None) -> float:
    """What a literal says, 0 for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand)
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float) else 0


def bounds(tree: ast.Module) -> list[int]:
    """The lines of a file that bound something by a number of their own."""
    found = [
        node.lineno for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign)) and number(node.value) > 1
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            given = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("islice", "itertools.islice", "range"):
            given = node.args
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".spend"):
            given = [one for one in node.args if number(one)]
            found += [node.lineno for _ in given]
        else:
            continue
        found += [node.lineno for one in given if number(one) > 4]
    return found


@pytest.mark.parametrize("file", sorted(TREES), ids=lambda file: file.relative_to(ROOM).as_posix())
def test_limits_stand_in_one_table(file: Path) -> None:
    if file != Path(limits.__file__):
        assert bounds(TREES[file]) == []


def test_every_limit_has_its_reason_and_its_use() -> None:
    body = TREES[Path(limits.__file__)].body[1:]
    names = [node.targets[0].id for node in body[::2] if isinstance(node, ast.Assign)]  # type: ignore[attr-defined]
    reasons = [ast.literal_eval(node.value) for node in body[1::2] if isinstance(node, ast.Expr)]
    assert len(names) == len(reasons) == len(body) / 2 == len(set(names))
    assert all(reason.strip().endswith(".") for reason in reasons)
    used = {
        node.attr
        for tree in (*TREES.values(), ast.parse((ROOM.parent / "check.py").read_text()))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "limits"
    }
    assert used == set(names)


def test_a_bound_is_seen_wherever_it_stands() -> None:
    text = (
        "A = 3\nB = 'x'\nif len(a) > 64:\n    w.spend(2)\nfor i in range(256):\n    w.spend(n)\nC: int = 5\nD = 1 < 2\n"
    )
    assert sorted(bounds(ast.parse(text))) == [1, 3, 4, 5, 7]
