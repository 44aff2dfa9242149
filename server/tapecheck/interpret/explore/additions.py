"""Which conditions only add something to a loss, or scale it: a backward walks all of the graph that it had before."""

from __future__ import annotations

import ast
from collections.abc import Iterable
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


def walked_by(node: ast.stmt) -> str:
    """Return the name of the loss that a statement walks and does nothing else with, empty where there is none."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="backward"))):
            return name
    return ""


def names_beside(node: ast.stmt) -> frozenset[str]:
    """Return the names that a statement uses, but for the loss that it walks."""
    match node:
        case ast.Expr(value=ast.Call(args=args, keywords=keywords)) if walked_by(node):
            return names_in_all((*args, *keywords))
    return names_in(node)


def adding(statement: ast.stmt | None, place: Place, loss: str) -> Adding | None:
    """Return what a condition at a place does to a loss by its statement; None where some of its graph may be lost, or
    something else is done.
    """
    match statement:
        case ast.If(test=test, body=body, orelse=[]) if _has(test, place):
            return _only_if(test, place, _together(_of_statement(one, loss) for one in body))
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp(test=test, body=one, orelse=other)) if (
            name == loss and _has(test, place)
        ):
            # What is added on one side alone is told from what is added on both by trying them.
            return _SCALES if _of(one, loss) == _of(other, loss) == _SCALES else None
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


def _of_statement(node: ast.stmt, loss: str) -> Adding | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == loss:
            return _of(value, loss)
        case ast.AugAssign(target=ast.Name(id=name), value=value) if name == loss:
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
