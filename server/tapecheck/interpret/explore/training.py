"""What a piece of code can come to, on any side of its conditions: the functions it may call, whether one trains."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tapecheck.interpret.explore.definitions import Body
from tapecheck.interpret.explore.effects import Effect, FunctionNode, facts_of
from tapecheck.interpret.explore.index import Index, index_of
from tapecheck.source import Source
from tapecheck.source.nodes import attr_of, bound_by_import, id_of, of_kind, walk
from tapecheck.torchfacts import Facts, load

_BUILTINS = frozenset(dir(builtins)) - {"__import__", "compile", "eval", "exec"}
_OF_PLAIN = frozenset(name for kind in (str, dict, list, set, int, float) for name in dir(kind) if name[0] != "_")
_OF_MODULES = frozenset((
    "buffers", "children", "cpu", "cuda", "double", "eval", "float", "half", "modules", "named_buffers",
    "named_children", "named_modules", "named_parameters", "parameters", "state_dict", "to", "train", "zero_grad",
))  # fmt: skip
"""Methods of `nn.Module` that run no forward and hand nothing on."""
_KNOWN = frozenset((*sys.stdlib_module_names, "torch", "torchvision", "numpy", "matplotlib", "tqdm", "PIL"))
"""Libraries that run no backward unless a name of autograd asks for one."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a statement of a file can run.

    `bodies` are the statement itself and the functions and methods of the file that it may call, directly or not.
    `trains` says that one of them can start a backward or make a leaf, by its text. `opaque` are the calls in them
    whose target the text of the file does not show: of variables, unknown methods, what is imported from elsewhere.
    """

    bodies: tuple[ast.AST, ...]
    trains: bool
    opaque: tuple[ast.Call, ...]


def reach_of(source: Source, statement: ast.stmt) -> Reach:
    """Return what a statement of a file can run, whichever way its conditions go."""
    index = index_of(source)
    owner = next(
        (
            body.owner.name
            for body in index.defined.bodies
            if body.owner is not None
            and body.node.lineno <= statement.lineno <= (body.node.end_lineno or body.node.lineno)
        ),
        None,
    )
    facts = facts_of((statement,))
    called = _reached(index, index.calls.callees(facts, owner))
    effects = facts.effects
    for body in called:
        effects |= body.facts.effects
    bodies = (statement, *(body.node for body in called))
    opaque = tuple(_opaque(bodies, index.defined.callables, _imported(source.tree)))
    return Reach(bodies, bool(effects & Effect.BEGIN), opaque)


def trainers_of(source: Source, line: int) -> list[FunctionNode]:
    """Return the functions of a file that can start a backward, by their own text, and come to the one of a line."""
    index = index_of(source)
    bodies = index.defined.bodies
    inside = {id(body) for body in bodies if body.node.lineno <= line <= (body.node.end_lineno or body.node.lineno)}
    return [
        body.node
        for body in bodies
        if body.facts.effects & Effect.START
        and id(body) not in inside
        and not inside.isdisjoint(map(id, _reached(index, _callees(index, body))))
    ]


def _reached(index: Index, called: Iterable[Body]) -> list[Body]:
    """Return functions of a file and those that they call, and these in turn, each once."""
    found: dict[int, Body] = {}
    queue = list(called)
    for body in queue:
        if id(body) not in found:
            found[id(body)] = body
            queue.extend(_callees(index, body))
    return list(found.values())


def _callees(index: Index, body: Body) -> Iterable[Body]:
    return index.calls.callees(body.facts, body.owner.name if body.owner is not None else None)


def _imported(tree: ast.Module) -> dict[str, str]:
    """Return the names that imports bind anywhere in a file, with the library that each comes from."""
    found: dict[str, str] = {}
    for node in walk(tree):
        for name, (module, level) in bound_by_import(node).items():
            found[name] = "" if level else module.partition(".")[0]
    return found


def _opaque(bodies: tuple[ast.AST, ...], own: frozenset[str], imported: dict[str, str]) -> Iterator[ast.Call]:
    facts = load()
    for body in bodies:
        for node in of_kind(body, ast.Call):
            if not _is_visible(node.func, own, imported, facts):
                yield node


def _is_visible(function: ast.expr, own: frozenset[str], imported: dict[str, str], facts: Facts) -> bool:
    """Return whether the text of a file shows what is called: a function of its own, of Python's, or of torch's."""
    root: ast.expr = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if (library := imported.get(id_of(root))) is not None:
        return library in _KNOWN
    if name := id_of(function):
        return name in own or name in _BUILTINS
    name = attr_of(function)
    return bool(name) and (name in own or name in _OF_PLAIN or name in _OF_MODULES or facts.op(name) is not None)
