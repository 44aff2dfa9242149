"""What goes wrong only in compiled code: a backend without a backward of its own, a mode without CUDA graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, appended
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.source.nodes import method_called, of_kind, passed

_EAGER = (
    "The graph is that of the program as it is written, with a node for each operation. What is called there takes as "
    "long as without `torch.compile`."
)
_MODE = (
    "No CUDA graph replays the calls, so that each result has memory of its own. The compiled code is the same; each "
    "kernel is launched by itself again."
)
_MOST = 4


def compile_eagerly(context: Context) -> Iterator[Candidate]:
    """Pass `backend="eager"` where something is compiled: in one place, else in all places of the file."""
    yield from _in_one_or_all('Compile with `backend="eager"`', _EAGER, dict(_edits(context.code)))


def compile_without_graphs(context: Context) -> Iterator[Candidate]:
    """Pass `mode="default"` where a mode is asked for: in one place, else in all places of the file."""
    code = context.code
    modes = [passed(call, "mode") for call in of_kind(code.tree, ast.Call) if _compiles(code, call)]
    changes = {one.value.lineno: code.replace(one.value, '"default"') for one in modes if one is not None}
    yield from _in_one_or_all('Compile with `mode="default"`', _MODE, changes)


def result_copied(context: Context) -> Iterator[Candidate]:
    """Put `.clone()` behind the compiled call whose result is overwritten."""
    for made in (context.code.expression_at(label.span) for label in context.labels("built")):
        if not isinstance(made, ast.Call):
            continue
        for change in appended(context.code, made, ".clone()"):
            title = f"Copy what the call on line {made.lineno} returns: `.clone()`"
            yield Candidate(title, "The copy has memory of its own, which no later call takes.", [change], acts=False)


def _in_one_or_all(title: str, effect: str, changes: Mapping[int, Change]) -> Iterator[Candidate]:
    """Yield the candidates that make one of some changes, which are by line, and the one that makes all."""
    lines = ", ".join(str(line) for line in changes)
    ways = [([line], [change]) for line, change in changes.items()][:_MOST]
    ways += [(list(changes), list(changes.values()))] if len(changes) > 1 else []
    for places, edits in ways:
        where = f"line {places[0]}" if len(places) == 1 else f"lines {lines}"
        yield Candidate(f"{title} ({where})", effect, edits, group="compiled", fallback=True)


def _edits(code: Code) -> Iterator[tuple[int, Change]]:
    """Yield the edit for each place that compiles, by line."""
    decorators = [one for node in ast.walk(code.tree) for one in getattr(node, "decorator_list", ())]
    for bare in decorators:
        if not isinstance(bare, ast.Call) and code.path(bare) == "torch.compile":
            yield bare.lineno, Change(code.end(bare), code.end(bare), '(backend="eager")')
    for call in of_kind(code.tree, ast.Call):
        if _compiles(code, call):
            change = code.rewritten(call, rewrite.with_argument, "backend", '"eager"')
            if change is not None:
                yield call.lineno, change


def _compiles(code: Code, call: ast.Call) -> bool:
    """Return whether a call may be `torch.compile(f)` or `model.compile()`."""
    path = code.path(call.func)
    return path == "torch.compile" or (not path and method_called(call) == "compile")
