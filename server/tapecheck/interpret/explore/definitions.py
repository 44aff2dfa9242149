"""The functions and classes that a file defines, and what each piece of its text can do by itself."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tapecheck.interpret import limits
from tapecheck.interpret.explore.effects import (
    PARALLEL,
    Effect,
    Facts,
    FunctionNode,
    class_facts,
    facts_of,
    hands_on_numbers,
    last_part,
    statement_facts,
    together,
)
from tapecheck.interpret.explore.reachable import closed
from tapecheck.source import Source
from tapecheck.source.nodes import of_kind
from tapecheck.source.notes import placeless


@dataclass(slots=True)
class Body:
    """A function or method: `owner` is the class it stands in, None for a function of the module.

    `closed` are the effects of the function with all that it calls, and the bits of the attributes stored on the way.
    """

    node: FunctionNode
    owner: ast.ClassDef | None
    facts: Facts
    closed: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        return f"{self.owner.name}.{self.node.name}" if self.owner is not None else self.node.name


_KNOWN_FACTS: dict[str, Facts] = {}


@placeless
def _body_facts(node: FunctionNode, lines: list[str]) -> Facts:
    """Return the facts of a function: by its text, as that of an earlier state of the file may be the same."""
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    known = _KNOWN_FACTS.get(text)
    if known is None:
        if len(_KNOWN_FACTS) >= limits.MOST_BODIES:
            _KNOWN_FACTS.clear()
        known = _KNOWN_FACTS[text] = facts_of((node,), making=node.name == "__init__")
        known.hands_on = node.name in ("forward", "__call__") and hands_on_numbers(node)
    return known


class Definitions:
    """What a file defines: its functions, its classes with their methods, and the statements besides them."""

    def __init__(self, source: Source) -> None:
        self.notes = source.notes
        self._lines = source.parsed.lines if source.parsed is not None else source.lines
        self.functions: dict[str, Body] = {}
        self.classes: dict[str, dict[str, Body]] = {}
        """The methods of each class."""
        self.class_nodes: dict[str, ast.ClassDef] = {}
        self.class_facts: dict[str, Facts] = {}
        """What stands in the classes besides their methods."""
        self.methods: dict[str, list[Body]] = {}
        """The methods of all classes by name."""
        self.bodies: list[Body] = []
        self.rest: list[ast.stmt] = []
        """The statements of the module that define no function and no class."""
        self.wrapping = _wrapping(source)
        """Other names that the file gives to what wraps a model."""
        self.names: list[tuple[str, ...]] = [("wrapping", *sorted(self.wrapping))]
        """The functions of the file, its classes with what they are made from, and their methods."""
        for statement in source.tree.body:
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._function(statement)
                case ast.ClassDef():
                    self._class(statement)
                case _:
                    self.rest.append(statement)
        # The last one first, as one walk over all of them would come to them.
        self.top = together(self.notes.of(statement, statement_facts) for statement in reversed(self.rest))
        self._by_node = {id(body.node): body for body in self.bodies}
        self._related = _Related(self.class_nodes)
        self.callables = frozenset(body.node.name for body in self.bodies) | self.class_nodes.keys()
        """The names by which the file's functions, methods and classes are called."""

    def _function(self, node: FunctionNode) -> None:
        body = Body(node, None, self._facts(node))
        self.functions[node.name] = body
        self.names.append(("function", node.name))
        self.bodies.append(body)

    def _facts(self, node: FunctionNode) -> Facts:
        return self.notes.of(node, _body_facts, self._lines)

    def _class(self, node: ast.ClassDef) -> None:
        self.class_facts[node.name] = self.notes.of(node, class_facts)
        members = self.classes[node.name] = {}
        self.class_nodes[node.name] = node
        self.names.append(("class", node.name, *map(last_part, node.bases)))
        for member in node.body:
            if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = Body(member, node, self._facts(member))
                members[member.name] = body
                self.bodies.append(body)
                self.methods.setdefault(member.name, []).append(body)
                self.names.append(("method", member.name))

    def family(self, name: str) -> tuple[str, ...]:
        """Return a class of the file with its bases and the classes made from it, as far as they stand in the file."""
        return self._related.family(name)

    def is_module(self, name: str) -> bool:
        """Whether a class is one of torch's modules by the names of its bases."""
        return any(
            last_part(base).endswith(("Module", "Sequential", "ModuleList"))
            for one in self.family(name)
            for base in self.class_nodes[one].bases
        )

    def effects_of(self, facts: Facts) -> int:
        """Return the effects of a piece of code by itself, by whatever name it calls what wraps a model."""
        wraps = facts.called and not self.wrapping.isdisjoint(facts.names)
        return int(facts.effects | Effect.WRAP if wraps else facts.effects)

    def body_of(self, node: ast.AST) -> Body | None:
        return self._by_node.get(id(node))

    def parts(self) -> list[Facts]:
        """Return what each piece of the file can do: the statements of the module, the classes, the functions."""
        return [self.top, *self.class_facts.values(), *(body.facts for body in self.bodies)]


def _wrapping(source: Source) -> frozenset[str]:
    if f"{PARALLEL} as " not in source.text:
        return frozenset()
    imported = (alias for one in of_kind(source.tree, ast.ImportFrom) for alias in one.names if alias.name == PARALLEL)
    return frozenset(alias.asname for alias in imported if alias.asname is not None)


class _Related:
    """Which classes of a file are made from which."""

    def __init__(self, nodes: dict[str, ast.ClassDef]) -> None:
        self._bases: dict[str, list[str]] = {}
        self._made_from: dict[str, list[str]] = {}
        for name, made in nodes.items():
            self._bases[name] = [one for one in dict.fromkeys(map(last_part, made.bases)) if one in nodes]
            for one in self._bases[name]:
                self._made_from.setdefault(one, []).append(name)
        self._families: dict[str, tuple[str, ...]] = {}

    def family(self, name: str) -> tuple[str, ...]:
        known = self._families.get(name)
        if known is None:
            known = self._families[name] = (*closed((name,), self._bases), *closed((name,), self._made_from)[1:])
        return known
