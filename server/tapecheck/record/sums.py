"""What the sums on some lines add that is no term: numbers that stand there, and what a sum begins with.

`sum(losses)` adds its first loss to 0, and so does a loop to the value that a total begins with. A node is recorded of
that which has one operand without graph, as it is of a constant term.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from tapecheck.source import SourceError, read_source
from tapecheck.source.nodes import given_to, is_number, stored_to, taken_apart

Kind = Literal["term", "number", "start", "begun", "unknown"]


@dataclass(frozen=True, slots=True)
class Written:
    """A sum that is written on the lines of a finding.

    `kind` is what it may add that is no term: nothing, a `number` each time, the number that Python's `sum` has as its
    `start`, what a total has `begun` with in front of a loop, or what is `unknown`. `operand` says which operand that
    is, as a graph has it: a number is the second one. What a total begins with is added once for all iterations of the
    `loops` loops around. `length` is how many terms Python's `sum` is given, where that stands there. Where a sum has a
    graph, so have the sums that it is computed into: they are `around` it, and `within` are those that are computed
    into it. `repeated` says that it may run more than once where its lines run once.
    """

    kind: Kind
    operand: Literal["first", "second"] = "second"
    loops: int = 0
    length: int | None = None
    around: int = 0
    within: int = 0
    repeated: bool = False

    def may_be_of(self, recorded: int) -> bool:
        """Return whether it may be one of so many recorded sums: `1 - a` of floats is none."""
        return self.around < recorded

    def must_be_of(self, recorded: int, written: int) -> bool:
        """Return whether so many recorded sums, of those that are written, cannot all be others."""
        return written - 1 - self.within < recorded


def written_sums(path: str, first: int, last: int) -> list[Written]:
    """Return the sums on some lines of a file."""
    try:
        tree = read_source(path).tree
    except SourceError:
        return []
    code = _Code(tree)
    found = [node for node in ast.walk(tree) if first <= getattr(node, "lineno", 0) <= last and code.adds(node)]
    below = {node: [one for one in _computed_into(node) if one in found] for node in found}
    return [
        code.written(node, sum(node in others for others in below.values()), len(below[node])) for node in found
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Code:
    """A text, with what is around each part of it."""

    tree: ast.Module
    above: dict[ast.AST, ast.AST] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for node in ast.walk(self.tree):
            self.above.update((child, node) for child in ast.iter_child_nodes(node))

    def adds(self, node: ast.AST) -> bool:
        """Return whether a part of the text is a sum, or a call that may add up what it is given from a number on."""
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and self._is_builtin(node.func.id, "sum")
        return _is_sum(node)

    def written(self, node: ast.AST, around: int, within: int) -> Written:
        kind, operand, loops = self._kind(node)
        length = self._length(node.args[0]) if isinstance(node, ast.Call) and node.args else None
        return Written(kind, operand, loops, length, around, within, self.is_repeated(node))

    def _kind(self, node: ast.AST) -> tuple[Kind, Literal["first", "second"], int]:
        if isinstance(node, ast.Call):
            return ("start" if all(map(is_number, given_to(node)[1:])) else "term"), "second", 0
        for place, operand in enumerate(_operands(node)):
            if is_number(operand):
                return "number", "second", 0
            if isinstance(operand, (ast.Name, ast.Attribute)) and (found := self._begun(node, operand)) is not None:
                number, loops = found
                if number and not loops and self._may_change(node, operand):
                    return "unknown", "second", 0
                if loops or number:
                    kind: Kind = "begun" if loops else "number"
                    return kind, "second" if number or place else "first", loops
            if isinstance(operand, ast.Name) and self._is_handed_a_number(operand):
                return "unknown", "second", 0
        return "term", "second", 0

    def _begun(self, node: ast.AST, operand: ast.Name | ast.Attribute) -> tuple[bool, int] | None:
        """Return whether what a variable has before it is added to is a number, and how many loops are around the sum
        alone. None where it is nothing that a total begins with.
        """
        statement = self._statement(node)
        text = ast.unparse(operand)
        stores = text in map(ast.unparse, _targets(statement))
        loops = 0
        step: ast.AST = statement
        while step in self.above:
            before = self._before(step, text)
            if before is not None:
                value = before.value if isinstance(before, (ast.Assign, ast.AnnAssign)) else None
                number = value is not None and is_number(value)
                return (number, loops if stores else 0) if value is not None and (number or stores) else None
            step = self.above[step]
            loops += isinstance(step, (ast.For, ast.While, ast.AsyncFor))
            if isinstance(step, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and isinstance(operand, ast.Name):
                if any(text in map(ast.unparse, _targets(one)) for one in ast.walk(step) if one is not statement):
                    return None
                if text in _parameters(step):
                    return None
        return None

    def _may_change(self, node: ast.AST, operand: ast.Name | ast.Attribute) -> bool:
        """Return whether a variable that is a number in front of a sum may be something else when that runs: it is
        stored anew in a loop around the sum, or by a function.
        """
        text = ast.unparse(operand)
        step: ast.AST = self._statement(node)
        while self._before(step, text) is None:
            step = self.above[step]
            if isinstance(step, (ast.For, ast.While, ast.AsyncFor)) and self._stores(step, text):
                return True
        functions = (one for one in ast.walk(self.tree) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)))
        if isinstance(operand, ast.Attribute):
            # The object has another name in its methods.
            return any(
                isinstance(target, ast.Attribute) and target.attr == operand.attr
                for function in functions
                if step not in ast.walk(function)
                for one in ast.walk(function)
                for target in _targets(one)
            )
        return any(
            isinstance(one, (ast.Global, ast.Nonlocal)) and text in one.names
            for function in functions
            for one in ast.walk(function)
        )

    def _stores(self, node: ast.AST, text: str) -> bool:
        return any(text in map(ast.unparse, _targets(one)) for one in ast.walk(node))

    def _before(self, step: ast.AST, text: str) -> ast.stmt | None:
        """Return the last statement in front of one, in the same block, that stores into a variable."""
        for _, block in ast.iter_fields(self.above[step]):
            if isinstance(block, list) and step in block:
                for other in reversed(block[: block.index(step)]):
                    if isinstance(other, ast.stmt) and any(
                        text in map(ast.unparse, _targets(one)) for one in ast.walk(other)
                    ):
                        return other
        return None

    def _is_handed_a_number(self, operand: ast.Name) -> bool:
        """Return whether the parameter of a function may be a number: one that is handed on, or called with numbers."""
        step: ast.AST = operand
        while step in self.above:
            step = self.above[step]
            if isinstance(step, ast.Lambda) and operand.id in _parameters(step):
                return True
            if isinstance(step, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return operand.id in _parameters(step) and self._takes_numbers(step.name)
        return False

    def _takes_numbers(self, function: str) -> bool:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == function:
                call = self.above.get(node)
                if not isinstance(call, ast.Call) or call.func is not node or any(map(is_number, call.args)):
                    return True
        return False

    def _is_builtin(self, name: str, builtin: str) -> bool:
        """Return whether a name is that of a builtin function, or one that is given to it."""
        stored = [
            node.value for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets)
        ]  # fmt: skip
        return any(ast.unparse(value) == builtin for value in stored) if stored else name == builtin

    def _length(self, node: ast.AST) -> int | None:
        """Return how many values a part of the text gives one after the other, where that stands there."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            # What may be a number on purpose is no term that has to have a graph.
            unclear = any(isinstance(one, (ast.Starred, ast.IfExp)) or is_number(one) for one in node.elts)
            return None if unclear else len(node.elts)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            (only, *others) = node.generators
            return None if others or only.ifs else self._length(only.iter)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            every = {"zip": node.args, "map": node.args[1:], "list": node.args[:1], "tuple": node.args[:1]}
            lengths = [self._length(one) for one in every.get(node.func.id, ())]
            known = [length for length in lengths if length is not None]
            return min(known) if known and len(known) == len(lengths) else None
        return None

    def is_repeated(self, node: ast.AST) -> bool:
        """Return whether a part of the text may run more than once where its statement runs once."""
        within = node
        while within in self.above and not isinstance(within, ast.stmt):
            step = self.above[within]
            if isinstance(step, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.Lambda)):
                return True
            within = step
        return False

    def _statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.above[node]
        return node


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return the single targets that a part of the text stores into."""
    match node:
        case ast.For(target=target) | ast.AsyncFor(target=target) | ast.NamedExpr(target=target):
            return taken_apart([target])
        case ast.withitem(optional_vars=ast.expr() as target):
            return taken_apart([target])
    return taken_apart(stored_to(node))


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    every = function.args
    return {one.arg for one in (*every.posonlyargs, *every.args, *every.kwonlyargs)}


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Add, ast.Sub))


def _operands(node: ast.AST) -> tuple[ast.expr, ...]:
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    return (node.operand,) if isinstance(node, ast.UnaryOp) else ()


def _computed_into(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the operations whose graph an operation has: no call is between, which could leave it out."""
    for operand in _operands(node):
        yield operand
        yield from _computed_into(operand)


def calls_once(path: str, first: int, last: int, function: str) -> bool:
    """Return whether some lines of a file call a function no more than once where they run once."""
    try:
        tree = read_source(path).tree
    except SourceError:
        return False
    code = _Code(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and first <= node.lineno <= last]
    named = [call for call in calls if ast.unparse(call.func).rsplit(".", 1)[-1] == function]
    return len(named or calls) <= 1 and not any(map(code.is_repeated, named or calls))
