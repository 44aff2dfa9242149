"""Code that builds no nodes runs without events, and what it does afterwards is seen as if it had not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tapecheck.record import RunResult
from tapecheck.tape import Backward, End, InPlace, Iteration, LoopEnd, Measure, Node, Raised, read_tape
from tests.record.harness import Write, plain, probed

traced = pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring is never off as a whole")
loops = pytest.mark.skipif(not (3, 11) <= sys.version_info[:2] <= (3, 13), reason="loops do not rest")
Record = Callable[..., RunResult]

HEAD = """
import sys, torch
from torch import nn
torch.manual_seed(0)
w = torch.ones(3, requires_grad=True)
tracing_function = getattr(sys.gettrace, "__wrapped__", None)


def traced():
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return tracing_function() is not None
    tool = next(number for number in range(6) if monitoring.get_tool(number) == "tapecheck")
    return bool(monitoring.get_local_events(tool, sys._getframe(0).f_back.f_code) & monitoring.events.LINE)


seen = []


def train(x=1.0):
    loss = (w * x).pow(2).sum()
    loss.backward()


"""


MUL = 20


def at(text: str, part: str) -> int:
    """The number of the one line of a script that has a text."""
    (found,) = [number for number, line in enumerate(text.lstrip().split("\n"), 1) if part in line]
    return found


def lines_of(result: RunResult, op: str) -> list[int]:
    return [event.at.line for event in result.tape.events if isinstance(event, Node) and op in event.op]


@loops
@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(19):\n    seen.append(traced())\n",
        "for i in range(19):\n    seen.append(traced())\n    if i == 17:\n        break\n",
        "for i in iter([*range(19)]):\n    for j in (1, 2):\n        pass\n    seen.append(traced())\n",
        "try:\n    for i in range(19):\n        seen.append(traced())\n        1 / (i - 17)\nexcept Exception: 0\n",
    ],
    ids=["exhausted", "broken off", "over an iterator", "raised"],
)
def test_a_loop_that_builds_nothing_rests_until_it_ends(record: Record, loop: str) -> None:
    text = HEAD + "train()\n" + loop + "print(seen, traced())\ntrain(2.0)\n"
    result = record(text)
    calm = 2 if sys.version_info < (3, 12) else 8
    assert result.stdout.startswith("[" + "True, " * calm + "False"), result.stdout
    assert result.stdout.endswith("False] True\n")
    assert lines_of(result, "Mul") == [MUL, MUL]


@traced
def test_a_function_that_built_nothing_rests_until_it_returns(record: Record) -> None:
    text = HEAD + "train()\nprint([(traced(), tracing_function() is not None) for _ in range(2)])\n"
    text += "print(traced(), traced(), tracing_function() is not None)\ntrain()\n"
    result = record(text)
    assert "[(True, True), (True, True)]" in result.stdout
    assert "True False True" in result.stdout
    assert lines_of(result, "Mul") == [MUL, MUL]


@loops
def test_the_iterations_of_a_loop_that_begins_to_build_are_counted_on(record: Record) -> None:
    text = HEAD + "for step in range(60):\n    x = float(step)\n    if step >= 50:\n        train(x)\n"
    result = record(text)
    indexes = [event.index for event in result.tape.events if isinstance(event, Iteration)]
    assert indexes[0] == 51
    assert [event.iterations for event in result.tape.events if isinstance(event, LoopEnd)] == [60]
    assert set(lines_of(result, "Mul")) == {MUL}


@loops
def test_a_node_in_calls_and_loops_that_began_meanwhile_has_its_line_and_iterations(record: Record) -> None:
    text = HEAD + (
        "def inner(step):\n    y = 0\n    for k in range(3):\n        y = y + w * k\n    return y\n\n\n"
        "def outer(step):\n    if step < 20:\n        return 0\n    return inner(step) + 1\n\n\n"
        "for step in range(22):\n    y = outer(step)\n    if step >= 20:\n        y.sum().backward()\n"
    )
    result = record(text)
    nodes = [event for event in result.tape.events if isinstance(event, Node)]
    first = next(event for event in nodes if "Mul" in event.op)
    assert first.at.line == at(text, "y + w")
    assert [index for _, index in first.at.iteration] == [21, 1]
    assert [site.line for site in first.at.stack] == [at(text, "inner(step) + 1"), at(text, "y = outer")]
    # The next iterations are seen as ever.
    indexes = [[i for _, i in event.at.iteration] for event in nodes if "Mul" in event.op]
    assert indexes == [[21, 1], [21, 2], [21, 3], [22, 1], [22, 2], [22, 3]]


@loops
def test_what_a_resting_loop_changes_in_place_has_its_line(record: Record) -> None:
    text = HEAD + (
        "buffer = torch.ones(3)\nfor i in range(4):\n    loss = (w * buffer).sum()\n    for t in range(9):\n"
        "        buffer[0] = t\n    try:\n        loss.backward()\n    except RuntimeError:\n        pass\n"
    )
    result = record(text)
    raised = [event for event in result.tape.events if isinstance(event, Raised)]
    assert len(raised) == 4
    assert {event.at.line for event in result.tape.events if isinstance(event, InPlace)} == {at(text, "buffer[0]")}


@loops
def test_generators_and_exceptions_between_rests_leave_no_node_without_line(record: Record) -> None:
    text = HEAD + (
        "def batches(n):\n    for i in range(n):\n        total = 0\n"
        "        for k in range(8):\n            total += k\n"
        "        yield torch.ones(3) * total\n\n\n"
        "def quiet(i):\n    if i == 5:\n        raise KeyError(i)\n    return i\n\n\n"
        "for x in batches(6):\n    train(x)\n"
        "for i in range(8):\n    try:\n        quiet(i)\n    except KeyError:\n        train(0.5)\n"
        "gen = batches(9)\nfor i in range(6):\n    next(gen)\ntrain(3.0)\ndel gen\ntrain(4.0)\n"
        "print([*map(quiet, range(5))])\ntrain(5.0)\n"
    )
    result = record(text)
    assert set(lines_of(result, "Mul")) == {MUL}
    assert len(lines_of(result, "Mul")) == 10
    stacks = {event.at.stack[0].line for event in result.tape.events if isinstance(event, Node) and "Mul" in event.op}
    assert stacks == {at(text, part) for part in ("train(x)", "train(0.5)", "train(3.0)", "train(4.0)", "train(5.0)")}


@loops
@pytest.mark.parametrize("end", ["", "        break\n"], ids=["exhausted", "broken off"])
@traced
def test_a_loop_rests_while_it_waits_for_a_batch(record: Record, end: str) -> None:
    text = HEAD + (
        "import time\nfrom torch.utils.data import DataLoader\n\n\n"
        "class Data:\n    def __len__(self):\n        return 12\n\n    def __getitem__(self, i):\n"
        "        time.sleep(0.001)\n        seen.append(tracing_function() is not None)\n"
        "        return (w * i).sum() if i == 9 else torch.ones(()) * i\n\n\n"
        "for x in DataLoader(Data(), 2):\n"
        "    seen.append(tracing_function() is not None)\n"
        "    train(x.detach().sum())\n"
        "    if x[0] == 8:\n        print(seen)\n" + end + "print(tracing_function() is not None)\n"
    )
    result = record(text)
    assert result.stdout.startswith("[True, True, True, False, False, True, False, False, True")
    assert result.stdout.endswith("]\nTrue\n")
    assert result.how_ended == "finished", result.stderr
    muls = set(lines_of(result, "Mul"))
    assert muls == {MUL} or muls == {MUL, at(text, "w * i")}
    assert result.iterations == (5 if end else 6)


@loops
@traced
def test_no_loop_waits_without_events_for_what_an_iterator_gives_at_once(record: Record) -> None:
    at_once = (
        "range(3)",
        "[0, 1, 2]",
        "(0, 1, 2)",
        "{0, 1, 2}",
        "{0: 1, 1: 1, 2: 1}",
        "{0: 1}.values()",
        "{0: 1}.items()",
    )
    later = "enumerate(range(3))", "map(abs, range(3))", "(x for x in range(3))", "zip(range(3), range(3))"
    text = (
        "import gc\n" + HEAD + "waiting = lambda: any(type(one).__name__ == '_Fetches' for one in gc.get_objects())\n"
    )
    for iterated in (*at_once, *later):
        text += f"for i in {iterated}:\n    found = waiting()\n    train()\nprint(found)\n"
    # On this clock every first value is long in coming.
    result = record(text, env={"TAPECHECK_CLOCK_RATE": "1e6"})
    # A generator of the program's own is to be seen.
    expected = [str(iterated not in {*at_once, "(x for x in range(3))"}) for iterated in (*at_once, *later)]
    assert result.stdout.split() == expected, result.stderr


def test_anomaly_mode_is_the_programs_own(tmp_path: Path, write: Write) -> None:
    text = HEAD + (
        "def quiet():\n    return torch.is_anomaly_enabled()\n\n\n"
        "print([quiet() for _ in range(6)])\n"
        "for i in range(6):\n    if i == 4:\n        with torch.autograd.set_detect_anomaly(True):\n"
        "            print(quiet(), torch.is_anomaly_check_nan_enabled())\n            node = (w * 2).grad_fn\n"
        "    print(quiet())\n"
        "print('w * 2' in node.metadata['traceback_'][-1], node.metadata['traceback_'])\n"
        "print(dict((w * 3).grad_fn.metadata))\n"
        "def off():\n    with torch.autograd.set_detect_anomaly(False):\n        return torch.is_anomaly_enabled()\n"
        "print([off() for _ in range(6)], torch.is_anomaly_enabled())\n"
    )
    script = write(text)
    first, second = plain(script, cwd=str(tmp_path)), probed(script, cwd=str(tmp_path))
    assert second.stdout == first.stdout
    assert (second.stderr, second.returncode) == (first.stderr, first.returncode) and first.returncode == 0


@loops
def test_a_line_that_is_counted_never_rests(record: Record, tmp_path: Path) -> None:
    text = HEAD + "train()\nfor i in range(30):\n    z = i\ntrain()\n"
    result = record(text, watch=[(str(tmp_path / "script.py"), at(text, "z = i"))])
    hits = [event.value for event in result.tape.events if isinstance(event, Measure) and event.name == "line-hits"]
    assert hits[-1] == 30


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_calls_that_built_nothing_run_without_line_events(record: Record) -> None:
    result = record(
        """
import sys, torch
w = torch.ones(3, requires_grad=True)
monitoring = sys.monitoring
tool = next(number for number in range(6) if monitoring.get_tool(number) == "tapecheck")
lines = []


def plain(n):
    n = helper(n)
    return n + 1


def helper(n):
    return n * 2


def turns(n):
    value = n + 1
    if n > 20:
        return (w * value).sum()
    return value


i = -1
while i < 29:
    i += 1
    plain(i)
    loss = turns(i)
    lines.append([bool(monitoring.get_local_events(tool, f.__code__) & monitoring.events.LINE) for f in (plain, turns)])
    if torch.is_tensor(loss):
        loss.backward()
print(lines[1], lines[15], lines[29])
"""
    )
    assert result.stdout == "[True, True] [False, False] [False, True]\n", result.stderr
    built = {event.at.span.line for event in result.tape.events if isinstance(event, Node)}
    assert built and len(built) == 1 and result.backwards == 9
    functions = {event.at.function for event in result.tape.events if isinstance(event, Node)}
    assert functions == {"turns"}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_what_a_resting_loop_calls_often_has_no_events_until_it_builds_or_the_loop_ends(record: Record) -> None:
    text = HEAD + (
        "monitoring = sys.monitoring\n"
        "tool = next(number for number in range(6) if monitoring.get_tool(number) == 'tapecheck')\n"
        "def events(f):\n    return monitoring.get_local_events(tool, f.__code__) != 0\n\n\n"
        "def plain(n):\n    return n\n\n\n"
        "def turns(n):\n    n = plain(n)\n    return (w * n).sum() if n > 80 else n\n\n\n"
        "def numbers():\n    n = 0\n    while True:\n        n += 1\n        yield n\n\n\n"
        "for i in range(60):\n    plain(i)\n    seen.append(events(plain))\n"
        "print(sum(seen) < 40, seen[-1], events(plain))\n"
        "for i in numbers():\n    loss = turns(i)\n    seen.append([events(turns), events(plain), events(numbers)])\n"
        "    if i > 80:\n        loss.backward()\n    if i == 83:\n        break\n"
        "print(seen[60], seen[138], seen[-1])\ntrain(3.0)\n"
    )
    result = record(text)
    assert result.stdout.split("\n")[0] == "True False True", result.stderr
    assert result.stdout.split("\n")[1] == "[True, True, True] [False, False, False] [True, True, True]"
    nodes = [event for event in result.tape.events if isinstance(event, Node) and "Mul" in event.op]
    assert [event.at.line for event in nodes] == [at(text, "w * n")] * 3 + [MUL]
    assert [[index for _, index in event.at.iteration] for event in nodes] == [[n] for n in range(81, 84)] + [[]]
    assert {site.line for event in nodes for site in event.at.stack} == {at(text, "turns(i)"), at(text, "train(3.0)")}


@loops
def test_a_list_that_is_made_in_a_loop_s_header_is_not_taken_for_it(record: Record) -> None:
    text = HEAD + (
        "for step in range(6):\n    y = w + step\n    for x in [\n        float(k)\n        for k in range(28)\n"
        "        if k < 27\n    ]:\n        if step > 4 and x > 22:\n            train(x)\n"
    )
    result = record(text)
    nodes = [event for event in result.tape.events if isinstance(event, Node) and "Mul" in event.op]
    indexes = [tuple(index for _, index in event.at.iteration) for event in nodes]
    assert indexes == [(6, 24), (6, 25), (6, 26), (6, 27)]


@loops
def test_a_loop_that_rests_makes_no_warning(record: Record) -> None:
    text = (
        "import warnings\nwarnings.simplefilter('error')\n"
        + HEAD.lstrip()
        + (
            "for step in range(60):\n    if step >= 50:\n        train(float(step))\n"
            "for i in range(60):\n    y = i\ntrain(0.5)\n"
        )
    )
    result = record(text)
    assert (result.stderr, result.how_ended, result.failure) == ("", "finished", "")
    assert [event.iterations for event in result.tape.events if isinstance(event, LoopEnd)] == [60]


@loops
def test_a_thread_that_begins_while_a_loop_rests_is_seen(record: Record) -> None:
    text = HEAD + (
        "import threading\n\n\n"
        "def work(x):\n    for k in range(4):\n        train(x)\n\n\n"
        "def plain(n):\n    return n\n\n\n"
        "for i in range(90):\n    plain(i)\n    if i == 70:\n"
        "        thread = threading.Thread(target=work, args=(2.0,))\n"
        "        thread.start()\n        thread.join()\ntrain(3.0)\n"
    )
    result = record(text)
    nodes = [event for event in result.tape.events if isinstance(event, Node) and "Mul" in event.op]
    assert [event.at.line for event in nodes] == [MUL] * 5
    assert result.how_ended == "finished" and result.backwards == 5, result.stderr


@traced
def test_the_program_sees_no_tracing_but_its_own(write: Write, tmp_path: Path, warm: str) -> None:
    script = write("""
        import sys, threading, torch

        def own(frame, event, arg):
            return None

        def seen():
            return [module.gettrace() for module in (sys, threading) if hasattr(module, "gettrace")]

        w = torch.ones(3, requires_grad=True)
        print(seen(), sys.gettrace.__name__)
        thread = threading.Thread(target=lambda: print(seen()))
        thread.start()
        thread.join()
        for step in range(4):
            (w * w).sum().backward()
            before = sys.gettrace()
            sys.settrace(own)
            print(sys.gettrace() is own)
            sys.settrace(before)
        threading.settrace(own)
        print(seen()[1:] in ([], [own]), sys.gettrace())
    """)
    without = plain(script, cwd=str(tmp_path), python=warm)
    recorded = probed(script, cwd=str(tmp_path), python=warm)
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (without.stdout, without.stderr, 0)
    with (tmp_path / "tape.jsonl").open(encoding="utf-8") as file:
        events = read_tape(file).events
    assert sum(isinstance(event, Backward) for event in events) == 4 and isinstance(events[-1], End)
