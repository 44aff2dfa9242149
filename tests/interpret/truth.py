"""What real torch does with programs: where each raises, all of them run in forks of one child process."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PRELUDE = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\ntorch.manual_seed(0)\n"
_RUNNER = """
import gc, json, os, sys, traceback
import torch
# What programs import is imported once, and not in each of the forks.
import torch._dynamo, torch.distributions, torch.func, torch.optim.swa_utils, torch.utils.checkpoint
torch.set_num_threads(1)

def outcome(source):
    try:
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "program.py"]
        # The engine calls a Function's own backward: the line to tell is that of the call that started the engine.
        lines = [frame.lineno for frame in frames if frame.name != "backward"]
        return [lines[-1], (str(error).splitlines() or [""])[0][:80]]
    return [None, ""]

def nodes():
    # Those that are alive: any tensor, or the gradient of one, leads to them.
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if isinstance(thing, torch.Tensor)]
    tensors += [tensor.grad for tensor in tensors if tensor.is_leaf and tensor.grad is not None]
    found, stack = set(), [tensor.grad_fn for tensor in tensors]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found.add(node)
            stack.extend(before for before, _ in node.next_functions)
    return sum(type(node).__name__ != "AccumulateGrad" for node in found)

def counts(source):
    seen = []
    code = compile(source.replace("pass  # count", "__count__()"), "program.py", "exec")
    exec(code, {"__name__": "__main__", "__count__": lambda: seen.append(nodes())})
    return seen

asked = counts if sys.argv[1:] == ["counts"] else outcome
answers = {}
# What the imports made has no graph: left out of collections, they take milliseconds in each fork and not a second.
gc.collect()
gc.freeze()
for name, source in json.load(sys.stdin).items():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.close(1)
        os.open(os.devnull, os.O_WRONLY)
        os.write(writer, json.dumps(asked(source)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        answers[name] = json.loads(answer.read() or "null")
    os.wait()
print(json.dumps(answers))
"""


def full(program: str) -> str:
    """A program with the imports that all of them share."""
    return PRELUDE + program.lstrip("\n")


def expected_line(source: str) -> int | None:
    """The line marked `# raises`, None where there is none."""
    return next((n for n, line in enumerate(source.splitlines(), 1) if line.rstrip().endswith("# raises")), None)


def torch_raises_at(sources: Mapping[str, str]) -> dict[str, tuple[int | None, str]]:
    """For each program the innermost of its lines in torch's traceback (None where it runs) and the message."""
    return {name: (line, message) for name, (line, message) in _run(sources).items()}


def nodes_counted(sources: Mapping[str, str]) -> dict[str, list[int]]:
    """For each program how many graph nodes are alive under torch whenever it comes to `pass  # count`."""
    return _run(sources, "counts")


def _run(sources: Mapping[str, str], *what: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _RUNNER, *what],
        input=json.dumps(dict(sources)),
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-500:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def misjudged(program: str, questions: Iterable[str]) -> list[tuple[str, bool, list[bool]]]:
    """Return which of some questions, or of their opposites, behind a program are answered otherwise than by torch.

    A second backward from `w` stands behind each: it is to be told where the answer is yes, and not for certain where
    it is no. The program has a leaf `w`; what torch warns of is left out.
    """
    wrong = []
    for asked in (form for question in questions for form in (question, f"not ({question})")):
        names: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(f"{program}\nanswer = bool({asked})", names)
        text = f"{program}\nloss = (w * w).sum()\nloss.backward()\nif {asked}:\n    loss.backward()\n"
        found = [one.certain for one in check(from_text(text, "train.py")).findings if one.code == "TAPE101"]
        if found == [] if names["answer"] else found == [True]:
            wrong.append((asked, names["answer"], found))
    return wrong


def raises_here(program: str) -> bool:
    """Return whether torch, or Python for want of a gradient, raises in a program that is run in this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(program, "program.py", "exec"), {})
        except (AttributeError, RuntimeError):
            return True
    return False


def needs_its_graph(program: str, inputs: Iterable[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a program fails for some standard input where it does not retain its graph; it runs where it does."""
    for text in inputs:
        _executed(program, text, monkeypatch)
        try:
            _executed(program.replace("retain_graph=True", ""), text, monkeypatch)
        except RuntimeError:
            return True
    return False


def _executed(program: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    exec(compile(program, "program.py", "exec"), {})
