"""What the loops of a program leave behind, measured: the graph nodes and saved tensors of each iteration.

A program is run with its outermost loops made longer (`longer`) and a mark at the start of every iteration. Saved
tensors are counted by hooks that box them, nodes by walking the graphs of all live tensors. Both are told apart by
the iteration that made them. What a backward after the loop still runs through is no leak: it was kept for that.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

NAME = "p.py"
ITERATIONS = 7
"""Iterations that the outermost loops are given."""
LAST = 2
"""The last iterations may rightly have something alive."""


def outermost(tree: ast.AST) -> list[ast.For | ast.While]:
    """The loops that no other loop of the same function contains."""
    found: list[ast.For | ast.While] = []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.For, ast.While)):
                if not inside:
                    found.append(child)
                visit(child, True)
            else:
                visit(child, inside and not isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Lambda)))

    visit(tree, False)
    return found


def longer(text: str) -> str:
    """The program with `ITERATIONS` rounds of its outermost loops, where their number is written out."""
    tree = ast.parse(text)
    for loop in outermost(tree):
        header = loop.iter if isinstance(loop, ast.For) else loop.test
        for part in ast.walk(header):
            if isinstance(part, ast.Call) and getattr(part.func, "id", getattr(part.func, "attr", "")) in (
                "range", "randn",
            ):  # fmt: skip
                if part.args and isinstance(part.args[0], ast.Constant) and len(part.args) != 2:
                    part.args[0] = ast.Constant(ITERATIONS)
            elif isinstance(part, ast.Compare) and isinstance(loop, ast.While):
                part.comparators = [ast.Constant(ITERATIONS)]
    return ast.unparse(ast.fix_missing_locations(tree))


def grows(loop: dict[str, Any]) -> bool:
    """Whether what a loop was measured to leave behind is a leak: something of every iteration, for nothing. The first
    one may leave nothing: `if i == 0: continue`.
    """
    early = range(1, loop["iterations"] - LAST)
    kept = all(loop["nodes"][i] or loop["saved"][i] for i in early)
    return loop["iterations"] >= 5 and kept and not loop["used"]


class _Box:
    """A saved tensor, and the iteration that saved it."""

    __slots__ = ("tensor", "watch", "when")

    def __init__(self, watch: _Watch, tensor: Any) -> None:
        self.tensor = tensor.detach()
        self.watch = watch
        self.when = watch.now
        watch.alive[watch.now] += 1

    def __del__(self) -> None:
        self.watch.alive[self.when] -= 1


class _Watch:
    def __init__(self) -> None:
        self.now: tuple[int, int] = (0, 0)
        self.alive: Counter[tuple[int, int]] = Counter()
        self.starts: dict[int, list[int]] = {}
        self.loops: dict[int, dict[str, Any]] = {}

    def begin(self, line: int, first: bool) -> None:
        from torch._C._autograd import _get_sequence_nr

        if first:
            self.starts[line] = []
        self.starts[line].append(_get_sequence_nr())
        self.now = (line, len(self.starts[line]) - 1)

    def left(self, line: int) -> None:
        starts = self.starts.get(line, [])
        count = len(starts)
        result = {"line": line, "iterations": count, "nodes": [0] * count, "saved": [0] * count, "used": False}
        self.loops[line] = result
        for index in range(count):
            result["saved"][index] = self.alive[(line, index)]
        for node in _live_nodes():
            index = sum(node._sequence_nr() >= start for start in starts) - 1
            if index >= 0:
                result["nodes"][index] += 1
                if index < count - LAST:
                    node.register_prehook(lambda gradients: result.update(used=True))
        self.now = (0, 0)

    def unpack(self, box: _Box) -> Any:
        line, index = box.when
        result = self.loops.get(line)
        if result is not None and index < result["iterations"] - LAST:
            result["used"] = True
        return box.tensor


def _live_nodes() -> list[Any]:
    """The nodes that live tensors, and their gradients, refer to."""
    import gc

    import torch

    gc.collect()
    roots = []
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):
            roots.append(thing.grad_fn)
            if thing.is_leaf and thing.grad is not None:
                roots.append(thing.grad.grad_fn)
    seen: dict[int, Any] = {}
    while roots:
        node = roots.pop()
        if node is None or id(node) in seen or type(node).__name__ == "AccumulateGrad":
            continue
        seen[id(node)] = node
        roots.extend(child for child, _ in node.next_functions)
    return list(seen.values())


def watch(text: str) -> dict[str, Any]:
    """Run a program, and tell what its outermost loops leave behind; {"loops": None} where it raises."""
    import random

    import torch

    tree = ast.parse(text)
    state = _Watch()
    for loop in outermost(tree):
        flag = f"_first_{loop.lineno}"
        begin = f"_watch.begin({loop.lineno}, globals().get({flag!r}, True)); globals()[{flag!r}] = False"
        loop.body[:0] = ast.parse(begin).body
        _after(tree, loop, ast.parse(f"globals()[{flag!r}] = True; _watch.left({loop.lineno})").body)
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": NAME, "_watch": state}
    random.seed(0)
    try:
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: _Box(state, tensor), state.unpack):
            exec(compile(ast.fix_missing_locations(tree), NAME, "exec"), scope)
    except BaseException as error:
        return {"loops": None, "message": f"{type(error).__name__}: {error}"[:200]}
    return {"loops": list(state.loops.values())}


def _after(tree: ast.AST, loop: ast.stmt, statements: list[ast.stmt]) -> None:
    """Put statements behind a loop."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(node, name, None)
            if isinstance(block, list) and loop in block:
                block[block.index(loop) + 1 : block.index(loop) + 1] = statements
                return
