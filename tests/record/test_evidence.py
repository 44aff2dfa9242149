"""What a run says of findings. One program holds one mistake of each kind, another the same parts mended."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.record import RunRequest, RunResult, confirm, judge
from tapecheck.rules import ALL, Finding
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.graph_kept.rule import of_activations
from tapecheck.source import read_source
from tapecheck.tape import Span, read_tape, write_tape
from tests.record.harness import PYTHON, QUIET

NAMES = {rule.code: rule for rule in ALL}

# A comment names the code of the mistake on its line; [mended: ...] is the line of the mended program.
MISTAKES = """\
import torch
from torch import nn

torch.manual_seed(0)


def attempt(part):
    try:
        part()
    except RuntimeError as error:
        print(part.__name__, str(error).split(".")[0])


def net(inputs=4):
    model = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def carried():
    cell = nn.GRUCell(4, 4)
    state = torch.zeros(2, 4)
    for step in range(4):
        state = cell(torch.randn(2, 4), state)
        state.pow(2).sum().backward()  # TAPE101
        state = state  # [mended: state = state.detach()]


def stepped_between():
    model, optimizer = net()
    for step in range(3):
        out = model(torch.randn(5, 4))
        out.mean().backward(retain_graph=True)
        optimizer.step()  # [mended: pass]
        out.pow(2).mean().backward()  # TAPE102


def detached():
    model, _ = net()
    for step in range(3):
        out = model(torch.randn(5, 4)).detach()  # [mended: out = model(torch.randn(5, 4))]
        out.mean().backward()  # TAPE103


def initialised():
    weight = nn.Parameter(torch.zeros(3))
    for step in range(3):
        with torch.enable_grad():  # [mended: with torch.no_grad():]
            weight.fill_(1.0)  # TAPE104


def totalled():
    model, optimizer = net()
    total = 0.0
    for step in range(6):
        loss = model(torch.randn(5, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss  # TAPE201 [mended: total += loss.item()]


def validated(outputs):
    model, _ = net()
    for batch in range(6):
        out = model(torch.randn(50, 4))  # [mended: out = model(torch.randn(50, 4)).detach()]
        outputs.append(out)  # TAPE201


def chained():
    embed = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(embed.parameters(), lr=0.01)
    mean = torch.zeros(4)
    for step in range(6):
        z = embed(torch.randn(5, 4)).mean(0)
        mean = 0.9 * mean + 0.1 * z  # [mended: mean = 0.9 * mean.detach() + 0.1 * z]
        optimizer.zero_grad()
        mean.pow(2).sum().backward(retain_graph=True)  # TAPE202
        optimizer.step()


def cycled():
    model, optimizer = net()
    for step in range(6):
        x = torch.randn(5, 4, requires_grad=True)
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward(create_graph=True)  # TAPE203 [mended: torch.autograd.grad(loss, x, create_graph=True)]


def retained():
    model, optimizer = net()
    for step in range(3):
        out = model(torch.randn(5, 4))
        out.mean().backward(retain_graph=True)  # TAPE301
        pass  # [mended: out.pow(2).mean().backward()]


def penalised():
    model, optimizer = net()
    for step in range(3):
        x = torch.randn(5, 4, requires_grad=True)
        out = model(x)
        total = out.sum()
        differentiable = False  # [mended: differentiable = True]
        (g,) = torch.autograd.grad(total, x, retain_graph=True, create_graph=differentiable)
        loss = out.mean() + g.pow(2).sum()  # TAPE401
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def cut():
    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
    for step in range(3):
        hidden = body(torch.randn(5, 4)).data  # TAPE402 [mended: hidden = body(torch.randn(5, 4))]
        optimizer.zero_grad()
        head(hidden).pow(2).mean().backward()
        optimizer.step()


def never_called():
    torch.ones(2).sum().backward()  # TAPE103


for part in (carried, stepped_between, detached, initialised, totalled, chained, cycled, retained, penalised, cut):
    attempt(part)
validated([])
"""


def _mend(text: str) -> str:
    lines = []
    for line in text.splitlines():
        before, _, mended = line.partition("[mended: ")
        if mended:
            indent = before[: len(before) - len(before.lstrip())]
            code = before.partition("#")[2].strip()
            line = f"{indent}{mended[:-1]}" + (f"  # {code}" if code else "")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _predicted(path: Path) -> list[Finding]:
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        comment = line.partition("# ")[2].split(" ")[0]
        if comment in NAMES:
            rule = NAMES[comment]
            span = Span(str(path), number, len(line) - len(line.lstrip()) + 1, number, len(line) + 1)
            found.append(Finding(rule.code, rule.name, rule.severity, span, "predicted", "help"))
    return found


Judged = tuple[Path, RunResult, list[Finding]]


def _judged(path: Path, text: str) -> Judged:
    path.write_text(text)
    predicted = _predicted(path)
    assert len(predicted) == 12
    request = RunRequest(str(path), python=PYTHON, cwd=str(path.parent), env=QUIET)
    result, findings = confirm(str(path), request, predicted)
    assert all(finding.evidence is None for finding in predicted), "the findings given are left as they were"
    return path, result, findings


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return _judged(tmp_path_factory.mktemp("mistakes") / "program.py", MISTAKES)


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return _judged(tmp_path_factory.mktemp("mended") / "program.py", _mend(MISTAKES))


def _verdicts(judged: Judged) -> list[tuple[str, int, str]]:
    return [(f.code, f.span.line, f.evidence.verdict if f.evidence else "") for f in judged[2]]


def test_every_mistake_is_confirmed_on_its_line(mistakes: Judged) -> None:
    path, result, _ = mistakes
    assert result.how_ended == "finished", result.stderr
    lines = {finding.span.line: finding.code for finding in _predicted(path)}
    unreached = max(lines)
    expected = [(code, line, "not-reached" if line == unreached else "confirmed") for line, code in lines.items()]
    assert _verdicts(mistakes) == expected


def test_the_evidence_says_what_happened(mistakes: Judged) -> None:
    by_code = {f.code: f.evidence for f in reversed(mistakes[2]) if f.evidence and f.evidence.verdict == "confirmed"}
    twice = by_code["TAPE101"]
    assert twice is not None and twice.iteration == 2
    assert "second time" in twice.detail and "built on line 23 in iteration 1" in twice.detail
    assert "freed by the call on line 24" in twice.detail
    stale = by_code["TAPE102"]
    assert stale is not None and stale.iteration == 1 and "changed on line 33" in stale.detail
    total, outputs = (f.evidence for f in mistakes[2] if f.code == "TAPE201")
    assert total is not None and "`total`" in total.detail and "no saved tensors" in total.detail
    assert outputs is not None and "`outputs`" in outputs.detail and outputs.measured["saved_bytes"][-1] > 3000
    assert outputs.measured["nodes"] == sorted(set(outputs.measured["nodes"]))
    chain = by_code["TAPE202"]
    assert chain is not None and len(chain.measured["nodes"]) == 6
    cut = by_code["TAPE402"]
    assert cut is not None and cut.measured == {"parameters": ["body.weight", "body.bias"], "steps": 3}


def test_what_does_not_happen_is_refuted(mended: Judged) -> None:
    path, result, findings = mended
    assert result.how_ended == "finished", result.stderr
    assert "carried" not in result.stdout
    verdicts = _verdicts(mended)
    unreached = max(finding.span.line for finding in _predicted(path))
    for code, line, verdict in verdicts[:12]:
        if code == "TAPE203":
            # The mended line calls autograd.grad: create_graph stays, nothing grows.
            assert verdict == "refuted"
        else:
            assert verdict == ("not-reached" if line == unreached else "refuted"), (code, line, verdict)
    # The chain that was cut no longer needs its retain_graph.
    assert [(f.code, f.evidence.verdict) for f in findings[12:] if f.evidence] == [("TAPE301", "found-by-run")]


def test_a_run_finds_what_was_not_predicted(mistakes: Judged) -> None:
    path, result, _ = mistakes
    found = judge([], result.tape)
    assert all(f.evidence is not None and f.evidence.verdict == "found-by-run" for f in found)
    codes = {(f.code, f.span.line) for f in found}
    predicted = {(f.code, f.span.line) for f in _predicted(path)}
    by_rule = {item for item in predicted if item[0] not in ("TAPE401", "TAPE402")}
    by_rule.discard(max(predicted, key=lambda item: item[1]))
    # What never had a gradient it sees without the cut: it stands where the optimizer was made.
    (starved,) = [finding for finding in found if finding.code == "TAPE402"]
    assert starved.facts.parameters == ("body.weight", "body.bias")
    assert codes - {("TAPE402", starved.span.line)} == by_rule
    errors = [f for f in found if f.code == "TAPE101"]
    assert {label.role for label in errors[0].labels} >= {"built", "freed"}


def test_a_tape_that_was_stored_says_the_same(mistakes: Judged, tmp_path: Path) -> None:
    path, result, findings = mistakes
    with (tmp_path / "tape").open("w") as file:
        write_tape(result.tape, file)
    with (tmp_path / "tape").open() as file:
        again = judge(_predicted(path), read_tape(file))
    assert [f.evidence for f in again if f.evidence and f.evidence.verdict != "found-by-run"] == [
        f.evidence for f in findings
    ]


def test_why_a_run_is_inconclusive_is_said(tmp_path: Path) -> None:
    text = """\
import torch

w = torch.ones(3, requires_grad=True)
kept = []
for step in range(6):
    loss = (w * w).sum()
    kept.append(loss)
    loss.backward()
    if step == 1:
        raise RuntimeError("out of memory")
"""
    path = tmp_path / "script.py"
    path.write_text(text)
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    span = Span(str(path), 7, 5, 7, 22)
    _, (found,) = confirm(str(path), request, [Finding("TAPE201", NAMES["TAPE201"].name, "info", span, "kept", "help")])
    assert found.evidence is None
    assert found.notes[-1].startswith("too little was seen: the run ended early (")


def test_an_early_end_refutes_nothing(mended: Judged) -> None:
    path, result, _ = mended
    first = next(f for f in _predicted(path) if f.code == "TAPE101")
    tape = dataclasses.replace(result.tape)
    cut = next(i for i, event in enumerate(tape.events) if type(event).__name__ == "Backward") + 1
    tape.events = tape.events[:cut]
    evidence = judge([first], tape)[0].evidence
    assert evidence is not None and evidence.verdict == "not-reached" and "ended early" in evidence.detail


def test_a_retained_gradient_is_left_to_the_dry_run(tmp_path: Path) -> None:
    path = tmp_path / "penalty.py"
    path.write_text(
        "import torch\n"
        "x = torch.ones(3, requires_grad=True)\n"
        "for step in range(3):\n"
        "    (g,) = torch.autograd.grad(x.pow(3).sum(), x, retain_graph=True)\n"
        "    (x * g).sum().backward()\n"
    )
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    assert confirm(str(path), request, [])[1] == []
    predicted = Finding("TAPE301", "needless-retain-graph", "info", Span(str(path), 4, 5, 4, 60), "predicted", "help")
    (judged,) = confirm(str(path), request, [predicted])[1]
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"


def test_a_memory_that_is_detached_later_is_no_finding_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "rollout.py"
    path.write_text(
        "import torch\n"
        "policy, memory, kept = torch.nn.Linear(4, 2), [], []\n"
        "for t in range(6):\n"
        "    memory.append(policy(torch.randn(4)).log_softmax(0)[0])\n"
        "    kept.append(policy(torch.randn(4)).sum())\n"
        "old = torch.stack(memory).detach()\n"
    )
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    found = confirm(str(path), request, [])[1]
    assert [(finding.code, finding.span.line) for finding in found] == [("TAPE201", 5)]


DISTILLED = """
import torch

class Sample:
    def __init__(self, x):
        self.x, self.soft = x, None

def one_epoch():
    for i, sample in enumerate(samples):
        loss = (student(sample.x) - READ.detach()).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

torch.manual_seed(0)
teacher, student = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
samples = [Sample(torch.randn(4, 3)) for _ in range(6)]
soft, rows = {}, []
"""
FILLED = """
for i, sample in enumerate(samples):
    KEPT
for epoch in range(3):
    one_epoch()
"""
LET_GO = """
del soft, rows, sample, samples
for step in range(4):
    optimizer.zero_grad()
    student(torch.ones(3)).sum().backward()
"""
AT_FIRST = """
for epoch in range(5):
    for i, sample in enumerate(samples):
        if epoch % EVERY == 0:
            KEPT
    one_epoch()
"""
TAKEN_ONCE = """
for i, sample in enumerate(samples):
    KEPT
old = torch.stack(rows).detach()
for step in range(6):
    optimizer.zero_grad()
    (student(sample.x) - old[step]).sum().backward()
    optimizer.step()
"""
STORES = {
    "dictionary": ("soft[i] = teacher(sample.x).exp()", "soft[i]"),
    "list": ("rows.append(teacher(sample.x).exp())", "rows[i]"),
    "attribute": ("sample.soft = teacher(sample.x).exp()", "sample.soft"),
}


@pytest.mark.parametrize(
    ("store", "loops", "expected"),
    [
        ("dictionary", FILLED, 1),
        ("list", FILLED, 1),
        ("attribute", FILLED, 1),
        ("dictionary", AT_FIRST.replace("EVERY", "9"), 1),
        # Let go once it has been used.
        ("list", FILLED + LET_GO, 0),
        # Detached once, and not needed any more.
        ("list", FILLED.replace("for epoch", "rows = [row.detach() for row in rows]\nfor epoch"), 0),
        ("list", TAKEN_ONCE, 0),
        ("dictionary", AT_FIRST.replace("EVERY", "1") + "    soft.clear()\n", 0),
    ],
    ids=["dictionary", "list", "attribute", "in the first epoch", "let go", "replaced", "once", "in each epoch"],
)
def test_what_is_kept_to_the_end_is_found_although_it_is_detached(
    store: str, loops: str, expected: int, tmp_path: Path
) -> None:
    kept, read = STORES[store]
    path = tmp_path / "distilled.py"
    path.write_text((DISTILLED + loops).replace("KEPT", kept).replace("READ", read))
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    result, found = confirm(str(path), request, [])
    assert result.tape.events[-1].how == "finished"
    lines = {
        path.read_text().splitlines()[finding.span.line - 1].strip() for finding in found if finding.code == "TAPE201"
    }
    assert lines == ({kept} if expected else set())


@pytest.mark.parametrize(
    ("update", "saved", "told"),
    [
        ("mean = 0.9 * mean + 0.1 * weight", "of saved numbers", "they saved no activations"),
        ("mean = mean * (x * weight)", "of saved tensors", "the activations of all iterations stay in memory"),
    ],
)
@pytest.mark.parametrize("predicted", [False, True])
def test_what_is_said_of_activations_is_what_was_measured(
    update: str, saved: str, told: str, predicted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "mean.py"
    path.write_text(
        "import torch\n"
        "weight = torch.ones(50, requires_grad=True)\n"
        "mean = torch.zeros(50)\n"
        "for step in range(9):\n"
        "    x = torch.randn(50)\n"
        f"    {update}\n"
    )  # fmt: skip
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    (finding,) = check(read_source(str(path))).findings
    facts = dataclasses.replace(finding.facts, saved_tensors_kept=predicted, backwarded=False)
    of = of_activations(kept=predicted, within=False, freed=False, chain=finding.facts.kind == "chain")
    said = f"at least 2 more graph nodes per iteration{of}"
    (judged,) = confirm(str(path), request, [dataclasses.replace(finding, facts=facts, notes=(said,))])[1]
    assert judged.evidence is not None and judged.evidence.verdict == "confirmed"
    assert saved in judged.evidence.detail and told in judged.notes[0], judged


def test_parts_of_one_forward_pass_are_not_the_activations_of_all_iterations(tmp_path: Path) -> None:
    path = tmp_path / "parts.py"
    path.write_text(
        "import torch\n"
        "weight = torch.ones(400, requires_grad=True)\n"
        "features = (torch.randn(400) * weight).tanh()\n"
        "kept = []\n"
        "for step in range(9):\n"
        "    kept.append(features[step * 8:step * 8 + 8])\n"
    )  # fmt: skip
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    (judged,) = confirm(str(path), request, list(check(read_source(str(path))).findings))[1]
    assert judged.evidence is not None and "of saved tensors" in judged.evidence.detail
    assert judged.notes[0].endswith("all of them belong to one forward pass, made before the loop")


def test_entries_of_a_dictionary_are_told_apart(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch

        w = torch.ones(2, requires_grad=True)
        metrics = {"loss": [], "sum": 0.0, "last": None}
        steps = {}
        for step in range(9):
            loss = (w * w).sum()
            metrics["loss"].append(loss)
            metrics["sum"] = metrics["sum"] + loss
            metrics["last"] = loss
            steps[f"step {step}"] = [loss]
            metrics.setdefault("all", []).append(loss)
    """)
    found = {item.span.line: item for item in judge([], result.tape) if item.code in ("TAPE201", "TAPE202")}
    assert sorted(found) == [8, 9, 11, 12]
    for line, holder in ((8, "metrics['loss']"), (9, "metrics['sum']"), (11, "steps"), (12, "metrics['all']")):
        assert found[line].message.startswith(f"`{holder}` "), found[line].message
        assert found[line].evidence is not None
    nodes = found[8].evidence
    assert nodes is not None
    # What earlier iterations left: a product and a sum of each.
    assert nodes.measured["nodes"] == [2, 4, 6, 8, 14]


UNUSED = """
    import torch

    params = [torch.randn(4, 1, requires_grad=True)]
    for step in range(3):
        weights = torch.zeros(5, 1, requires_grad=True)
        cost = (torch.randn(5, 4) @ params[0]).tanh()
        grads = torch.autograd.grad((cost * weights).sum(), params{words})
        fast = [p - g for p, g in zip(params, grads)]
        loss = (torch.randn(6, 4) @ fast[0]).pow(2).mean()
        torch.autograd.grad({root}, weights)
"""
TWICE = """
    import torch


    def derivative(y, x):
        return torch.autograd.grad(y, x, torch.ones_like(y), retain_graph=True)[0]


    x = torch.rand(3, requires_grad=True)
    slope = derivative(x.sin(), x)
    derivative(slope, x)
"""


@pytest.mark.parametrize(
    ("text", "line", "taken"),
    [(UNUSED.format(words="", root="loss"), 10, {7}), (TWICE, 5, {5, 9})],
    ids=["no part of the graph", "no graph"],
)
def test_a_gradient_without_graph_is_named_by_the_run(
    record: Callable[..., RunResult], text: str, line: int, taken: set[int]
) -> None:
    (finding,) = judge([], record(text).tape)
    assert (finding.code, finding.span.line) == ("TAPE401", line)
    assert taken <= {label.span.line for label in finding.labels}


@pytest.mark.parametrize("root", ["cost.sum()", "torch.randn(6, 4).matmul(params[0]).sum()"])
def test_an_input_that_was_never_used_is_no_missing_graph(record: Callable[..., RunResult], root: str) -> None:
    result = record(UNUSED.format(words=", retain_graph=True", root=root))
    assert "to not have been used" in result.stderr
    assert judge([], result.tape) == []


def test_how_often_a_call_ran_is_counted_and_not_what_the_tape_holds(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text(
        "import torch\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "for step in range(40):\n"
        "    (w * w).sum().backward(\n"
        "        retain_graph=True,\n"
        "    )\n"
    )
    predicted = Finding("TAPE301", "needless-retain-graph", "info", Span(str(path), 4, 5, 6, 6), "predicted", "help")
    (judged,) = confirm(str(path), RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET), [predicted])[1]
    assert judged.evidence is not None and "ran 40 times" in judged.evidence.detail


def test_iterations_of_another_loop_are_not_told_as_those_of_this_one(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch

        w = torch.ones(3, requires_grad=True)
        targets = []
        for part in range(3):
            targets.append(w * w)
        for step in range(2):
            sum(targets).sum().backward()
    """)
    (finding,) = [item for item in judge([], result.tape) if item.code == "TAPE101"]
    assert finding.evidence is not None
    assert finding.evidence.detail.startswith("raised in iteration 2: ")
    assert "was built on line 6 and freed" in finding.evidence.detail


def test_growth_is_told_of_the_loop_that_the_finding_names(tmp_path: Path) -> None:
    path = tmp_path / "average.py"
    path.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(4)))\n"
        "average = {name: value.detach().clone() for name, value in model.named_parameters()}\n"
        "for step in range(8):\n"
        "    model(torch.ones(2)).sum().backward()\n"
        "    for name, value in model.named_parameters():\n"
        "        average[name] = average[name] * 0.9 + value * 0.1\n"
    )
    source = read_source(str(path))
    (predicted,) = check(source).findings
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    (judged,) = confirm(str(path), request, [predicted])[1]
    assert (judged.code, judged.span.line) == ("TAPE201", 7)
    assert judged.evidence is not None and "of the loop on line 4, " in judged.evidence.detail


def test_what_is_stored_now_and_then_is_confirmed_by_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "now_and_then.py"
    path.write_text(
        "import torch\n"
        "w, kept, window = torch.ones(2, requires_grad=True), [], []\n"
        "for step in range(14):\n"
        "    loss = (w * w).sum()\n"
        "    loss.backward()\n"
        "    if step % 3 == 0:\n"
        "        kept.append(loss)\n"
        "        window = [*window, loss][-2:]\n"
    )
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)

    def predicted(line: int, holder: str) -> Finding:
        span = Span(str(path), line, 9, line, 20)
        return Finding(
            "TAPE201", "graph-kept-across-iterations", "info", span, "", "", facts=GraphKeptFacts(holder=holder)
        )

    kept, window = confirm(str(path), request, [predicted(7, "kept"), predicted(8, "window")])[1]
    assert kept.evidence is not None and kept.evidence.verdict == "confirmed"
    assert kept.evidence.measured["nodes"] == sorted(kept.evidence.measured["nodes"])
    assert window.evidence is None or window.evidence.verdict != "confirmed"


def test_a_parameter_that_is_changed_while_graphs_are_recorded_is_found(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch


        def average(teacher, student):
            for old, new in zip(teacher.parameters(), student.parameters()):
                old.mul_(0.9).add_(new, alpha=0.1)


        student, teacher = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1).requires_grad_(False)
        for step in range(9):
            student(torch.ones(2)).sum().backward()
            average(teacher, student)
    """)
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == ("TAPE201", 6)
    assert finding.message == "`teacher.weight` keeps every iteration's graph alive"
    assert [label.span.line for label in finding.labels if label.role == "path"] == [10]


CUSTOM = """
    import torch


    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            (y,) = ctx.saved_tensors
            return gradient * y


    w = torch.ones(3, requires_grad=True)
    z = Exp.apply(w)
    loss = z.sum()
    {before}
    loss.backward()
"""


@pytest.mark.parametrize(
    ("before", "code", "role"), [("loss.backward()", "TAPE101", "freed"), ("z.mul_(2)", "TAPE102", "changed")]
)
def test_what_a_custom_function_raises_belongs_to_the_call(
    record: Callable[..., RunResult], before: str, code: str, role: str
) -> None:
    result = record(CUSTOM.format(before=before))
    (finding,) = judge([], result.tape)
    assert (finding.code, finding.span.line) == (code, 21)
    labels = {label.role: label.span.line for label in finding.labels}
    assert labels[role] == 20, labels


def test_a_run_that_ends_before_the_steps_says_so(tmp_path: Path) -> None:
    path = tmp_path / "clipped.py"
    path.write_text(
        "import torch\n"
        "net = torch.nn.Linear(3, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(3):\n"
        "    loss = net(torch.randn(4, 3)).detach().mean().requires_grad_()\n"
        "    loss.backward()\n"
        "    net.weight.grad.clamp_(-1, 1)\n"
        "    optimizer.step()\n"
    )
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    predicted = Finding("TAPE402", "gradient-cut", "warning", Span(str(path), 5, 5, 5, 60), "predicted", "help")
    (judged,) = confirm(str(path), request, [predicted])[1]
    assert judged.evidence is not None and judged.evidence.verdict == "not-reached"
    assert "the line ran once, but the run ended before an optimizer had stepped twice" in judged.evidence.detail


def test_a_chain_that_is_reset_is_confirmed_with_its_window(tmp_path: Path) -> None:
    text = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
total = 0
for i in range(8):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    total += loss
    total.backward(retain_graph=True)
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
        total = 0
"""
    path = tmp_path / "script.py"
    path.write_text(text)
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    _, findings = confirm(str(path), request, check(read_source(str(path))).findings)
    (chain,) = [each for each in findings if each.code == "TAPE202"]
    assert chain.certain and "since the last reset" in chain.message
    assert chain.evidence is not None and chain.evidence.verdict == "confirmed"
    assert chain.evidence.measured == {"nodes": [5, 10, 15]}
    assert "in iterations 1 to 3 of the loop on line 7, and fewer after a reset" in chain.evidence.detail


def test_a_chain_names_what_carries_it_and_how_to_cut_that(record: Callable[..., RunResult]) -> None:
    result = record("""
        import torch
        from torch import nn

        class Memory:
            def __init__(self):
                self.cell, self.kept = nn.RNNCell(3, 5), {"now": {"h": torch.zeros(2, 5)}}

            def advance(self, x):
                self.kept = {"now": {"h": self.cell(x, self.kept["now"]["h"])}}
                return self.kept["now"]["h"]

        memory, plain = Memory(), nn.RNNCell(3, 5)
        for step in range(6):
            memory.advance(torch.randn(2, 3)).sum().backward(retain_graph=True)
        state = torch.zeros(2, 5)
        for step in range(6):
            state = plain(torch.randn(2, 3), state)
            state.sum().backward(retain_graph=True)
    """)
    inside, itself = judge([], result.tape)
    assert (inside.code, inside.span.line, itself.code, itself.span.line) == ("TAPE202", 14, "TAPE202", 18)
    carried = {label.span.line: label.message for label in inside.labels if label.role == "carried"}
    assert carried == {9: "`memory.kept` carries its graph into the next iteration"}
    assert "`.detach()` each tensor in `memory.kept`" in inside.help
    assert "`state = state.detach()`" in itself.help


ON_ONE_LINE = """\
import sys
import torch
from torch import nn

mode = sys.argv[1] if len(sys.argv) > 1 else "clean"
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0
for epoch in range(4):
    for step in range(10):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 4)).pow(2).mean()
        loss.backward()
        if mode == "often": loss.backward()
        shown = loss if epoch == 0 and step > 4 else None
        total = total + (loss if mode == "keep" else 0)
        optimizer.step()
"""


@pytest.fixture(scope="module")
def on_one_line(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    """The findings of a program whose conditions stand on the line of what they guard, in a run where none held."""
    script = tmp_path_factory.mktemp("one_line") / "train.py"
    script.write_text(ON_ONE_LINE)
    found = list(check(read_source(str(script))).findings)
    result, findings = confirm(str(script), RunRequest(str(script), python=PYTHON, env=QUIET), found)
    assert result.how_ended == "finished", result.stderr
    return {finding.code: finding for finding in findings}


def test_a_backward_whose_line_ran_without_it_was_not_reached(on_one_line: dict[str, Finding]) -> None:
    evidence = on_one_line["TAPE101"].evidence
    assert evidence is not None
    assert (evidence.verdict, evidence.detail) == (
        "not-reached", "the line ran 40 times, this part of it did not (the program ran to its end)"
    )  # fmt: skip


def test_what_is_alive_may_rise_once_and_be_gone_again(on_one_line: dict[str, Finding]) -> None:
    evidence = on_one_line["TAPE201"].evidence
    assert evidence is not None and evidence.verdict == "refuted", evidence
    assert "what is alive stayed the same" in evidence.detail


def test_a_failure_of_one_backward_confirms_no_finding_at_another(tmp_path: Path) -> None:
    path = tmp_path / "two.py"
    path.write_text(
        "import torch\n"
        "from torch import nn\n"
        "class Keeps(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.inner = nn.Linear(4, 4)\n"
        "        self.cache = None\n"
        "    def forward(self, x):\n"
        "        out = self.inner(x)\n"
        "        if self.cache is not None:\n"
        "            out = out + self.cache\n"
        "        self.cache = out\n"
        "        return out\n"
        "model = Keeps()\n"
        "for step in range(3):\n"
        "    loss = model(torch.ones(4, 4)).sum()\n"
        "    loss.backward(retain_graph=True)\n"
        "    loss.backward()\n"
        "    if loss.item() > 1e9:\n"
        "        continue\n"
        "    later = model(torch.ones(4, 4)).sum()\n"
        "    later.backward()\n"
    )
    predicted = check(read_source(str(path))).findings
    request = RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET)
    judged = confirm(str(path), request, predicted)[1]
    said = [(item.span.line, item.evidence.verdict) for item in judged if item.evidence is not None]
    assert said == [(17, "not-reached"), (22, "confirmed")]


def test_views_of_what_a_step_changes_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "views.py"
    path.write_text(
        "import torch\n"
        "net = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "kept = []\n"
        "for i in range(8):\n"
        "    kept.append(net.weight[0])\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.randn(2, 4)).pow(2).mean().backward()\n"
        "    optimizer.step()\n"
    )
    predicted = [item for item in check(read_source(str(path))).findings if item.code == "TAPE201"]
    assert len(predicted) == 1
    judged = confirm(str(path), RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET), predicted)[1]
    (mine,) = (item for item in judged if item.code == "TAPE201")
    assert mine.evidence is None or mine.evidence.verdict != "refuted"


def test_a_view_that_is_changed_in_place_refutes_no_growth(tmp_path: Path) -> None:
    path = tmp_path / "view.py"
    path.write_text(
        "import torch\n"
        "w = torch.nn.Parameter(torch.randn(4, 4))\n"
        "model = torch.nn.Linear(4, 1)\n"
        "kept = torch.nn.functional.instance_norm(w[None])[0]\n"
        "step = 0\n"
        "while step < 7:\n"
        "    step += 1\n"
        "    torch.nn.functional.l1_loss(model(torch.ones(2, 4)), torch.ones(2, 1)).backward()\n"
        "    kept.uniform_()\n"
    )
    predicted = [item for item in check(read_source(str(path))).findings if item.code == "TAPE201"]
    assert len(predicted) == 1
    judged = confirm(str(path), RunRequest(str(path), python=PYTHON, cwd=str(tmp_path), env=QUIET), predicted)[1]
    (mine,) = (item for item in judged if item.code == "TAPE201")
    assert mine.evidence is None
