"""Which conditions only add something to a loss, or scale it: a backward walks all of the graph that it had before."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from tapecheck.interpret.explore.effects import names_in, names_in_all
from tapecheck.interpret.explore.numbers import is_number
from tapecheck.interpret.state import Place
from tapecheck.source.nodes import of_kind, walk


@dataclass(frozen=True, slots=True)
class Adding:
    """What a condition does to a loss: with the answer `more` it adds something; None where it scales it at most."""

    more: bool | None


_SCALES, _ADDS = Adding(None), Adding(True)
_WALKING = frozenset(("backward", "manual_backward"))


def walked_by(node: ast.stmt, own: Set[str]) -> frozenset[str]:
    """Return the names of the losses that a statement walks, as they are or made into another one, and that it does
    nothing else with: a function of the program's `own` may choose by what it is given.
    """
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr=attr), args=args)) if attr in _WALKING:
            walked = [*_terms(receiver, own), *(name for one in args[:1] for name in _terms(one, own))]
            mentioned = [part.id for part in of_kind(node, ast.Name)]
            return frozenset(name for name in walked if mentioned.count(name) == 1)
    return frozenset()


def _terms(value: ast.expr, own: Set[str]) -> Iterator[str]:
    """Yield the names of what an expression is a sum of, or a library makes it of."""
    match value:
        case ast.Name(id=name):
            yield name
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            yield from _terms(operand, own)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            yield from _terms(left, own)
            yield from _terms(right, own)
        case ast.Call(func=ast.Attribute(value=receiver, attr=attr), args=args) if attr not in own:
            yield from _terms(args[0] if args else receiver, own)


def sums_in(trees: Iterable[ast.AST], own: Set[str]) -> dict[str, set[str]]:
    """Return for each name those that it is a sum of somewhere, but for what chooses anything, a length or an index."""
    sums: dict[str, set[str]] = {}
    for tree in trees:
        for node in walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() | ast.UnaryOp() as value):
                    sums.setdefault(name, set()).update(_terms(value, own))
                case ast.AugAssign(target=ast.Name(id=name), value=value):
                    sums.setdefault(name, set()).update(_terms(value, own))
    return sums


def choosing_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names that tests, loops and indices mention."""
    for node in walk(tree):
        match node:
            case (
                ast.If(test=part) | ast.While(test=part) | ast.IfExp(test=part) | ast.Assert(test=part)
                | ast.For(iter=part) | ast.AsyncFor(iter=part) | ast.Subscript(slice=part) | ast.Match(subject=part)
            ):  # fmt: skip
                yield from names_in(part)
            case ast.comprehension(iter=part, ifs=ifs):
                yield from names_in_all((part, *ifs))
            case ast.BoolOp(values=values):
                yield from names_in_all(values)


def names_beside(node: ast.stmt, walked: Set[str]) -> frozenset[str]:
    """Return the names that a statement uses, but for the losses that it walks."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver), args=args, keywords=keywords)) if walked:
            return names_in_all((receiver, *args, *keywords)) - walked
    return names_in(node)


def adding(statement: ast.stmt | None, place: Place, losses: Set[str]) -> Adding | None:
    """Return what a condition at a place does to losses by its statement; None where some of a graph may be lost, or
    something else is done.
    """
    match statement:
        case ast.If(test=test, body=body, orelse=[]) if _has(test, place):
            return _only_if(test, place, _together(_of_statement(one, losses) for one in body))
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp(test=test, body=one, orelse=other)) if (
            name in losses and _has(test, place)
        ):
            # What is added on one side alone is told from what is added on both by trying them.
            return _SCALES if _of(one, name) == _of(other, name) == _SCALES else None
    return None


def _has(test: ast.expr, place: Place) -> bool:
    return any(_is_at(part, place) for part in of_kind(test, ast.expr))


def _is_at(test: ast.expr, place: Place) -> bool:
    return (test.lineno, test.col_offset + 1) == place[1:]


def _only_if(test: ast.expr, place: Place, does: Adding | None) -> Adding | None:
    """Return what an answer to a condition brings about that does something only where its test is met."""
    if does is None or does.more is None:
        return does
    more = True
    while not _is_at(test, place):
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                test, more = operand, not more
            case _:
                return None
    match test:
        case ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript() | ast.UnaryOp() | ast.Compare(ops=[_]):
            return Adding(more)
    return None


def _together(parts: Iterable[Adding | None]) -> Adding | None:
    """Return what statements do to a loss one after the other, None where one of them does something else."""
    found = {*parts}
    if None in found:
        return None
    return _ADDS if _ADDS in found else _SCALES


def _of_statement(node: ast.stmt, losses: Set[str]) -> Adding | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in losses:
            return _of(value, name)
        case ast.AugAssign(target=ast.Name(id=name), value=value) if name in losses:
            return _together((_SCALES, _of_operand(value)))
    return None


def _of(value: ast.expr, loss: str) -> Adding | None:
    """Return what an expression makes of a loss: all of its graph is in that of the result."""
    match value:
        case ast.Name(id=name) if name == loss:
            return _SCALES
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _of(operand, loss)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            for one, other in ((left, right), (right, left)):
                if (kept := _of(one, loss)) is not None:
                    return _together((kept, _of_operand(other)))
    return None


def _of_operand(node: ast.expr) -> Adding | None:
    """Return what an operand adds to a graph, None where it stores something itself."""
    if is_number(node):
        return _SCALES
    return None if any(type(part) in (ast.NamedExpr, ast.Await, ast.Yield) for part in walk(node)) else _ADDS
