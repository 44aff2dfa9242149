"""Where a program cuts graphs, read from its text, for parameters that a run shows to have no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tapecheck.source import Source, SourceError, read_source
from tapecheck.source.nodes import attr_of, id_of, last_name, method_called, name_called, of_kind
from tapecheck.tape import Span

_CUTTING = frozenset({"detach", "detach_", "numpy"})
_TELLING = frozenset({"print", "append", "write", "log", "info", "debug", "add_scalar", "update", "item", "save"})
_OFF = frozenset({"no_grad", "inference_mode"})


@dataclass(frozen=True, slots=True)
class _Cut:
    """`span` is what cuts; a value that is `carried` from one iteration into the next is cut there on purpose."""

    span: Span
    carried: bool = False


def only_cut(files: Iterable[tuple[str, str]], parameters: Sequence[str]) -> Span | None:
    """Return the one place in the files of a program that can have cut these parameters off from every loss.

    `files` are names with the paths they are read from, `parameters` the names that lead to them, `model.fc.weight`.
    None where there are several, or none: a run does not see which of them a value went through. None, too, where the
    text never reads one of the parameters: it may take no part in the loss at all.
    """
    sources = [(name, source) for name, path in files if (source := _source(path)) is not None]
    read = {word for _, source in sources for word in _read(source.tree)}
    if not all(_is_read(parameter, read) for parameter in parameters):
        return None
    found = [cut for name, source in sources for cut in _cuts(name, source, parameters, sources)]
    places = {(cut.span.file, cut.span.line) for cut in found}
    return found[0].span if len(places) == 1 and not found[0].carried else None


def made_leaf(path: str, name: str, file: str) -> Span | None:
    """Return the one statement of a file that makes a variable of this name a leaf that requires grad."""
    source = _source(path)
    if source is None or not name.isidentifier():
        return None
    found: list[ast.expr] = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="requires_grad_")) if id_of(owner) == name:
                found.append(node)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    match target:
                        case ast.Attribute(value=owner, attr="requires_grad") if id_of(owner) == name:
                            found.append(target)
                        case ast.Name() if target.id == name and _requires_grad(value):
                            found.append(value)
    return _span(file, source, found[0]) if len(found) == 1 else None


def _requires_grad(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and (
        name_called(value) == "requires_grad_" or any(word.arg == "requires_grad" for word in value.keywords)
    )


def _source(path: str) -> Source | None:
    try:
        return read_source(path)
    except SourceError:
        return None


def _read(tree: ast.AST) -> Iterator[str]:
    """Yield the names of what a tree reads: attributes, and variables that are called or computed with."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            yield last_name(node)


def _is_read(parameter: str, read: set[str]) -> bool:
    """Return whether what holds a parameter is read: `model.encoder.weight` is where `encoder` is, `w` where `w` is."""
    words = [word for word in parameter.split(".") if not word.isdigit()]
    if len(words) > 1 and words[-1] not in read:
        words.pop()
    return bool(words) and words[-1] in read


def _cuts(
    name: str, source: Source, parameters: Sequence[str], sources: Sequence[tuple[str, Source]]
) -> Iterator[_Cut]:
    stack: list[tuple[ast.AST, frozenset[str]]] = [(source.tree, frozenset())]
    before, called = _stored_before(source.tree), set[int]()
    while stack:
        node, stored = stack.pop()
        if name_called(node) in _TELLING:
            # A value that is only told: where it came from is of no matter.
            continue
        if isinstance(node, (ast.JoinedStr, ast.AugAssign)) and not _writes_data(node):
            continue
        if isinstance(node, ast.Assign):
            stored = frozenset(name for target in node.targets for name in _stored(target)) - before[node]
        elif isinstance(node, ast.stmt):
            stored = frozenset()
        for region in _switched_off(node):
            if all(_is_read(parameter, set(_read(node))) for parameter in parameters):
                where = _called(node.name, sources) if isinstance(node, ast.FunctionDef) else None
                yield _Cut(where or _span(name, source, region))
        if isinstance(node, ast.Call):
            # What is called is a method, whatever its name: `self.data()`.
            called.add(id(node.func))
        if isinstance(node, ast.expr) and id(node) not in called and _is_cut(node):
            names = {inner.id for inner in of_kind(node, ast.Name)}
            yield _Cut(_span(name, source, node), carried=bool(names & stored))
        stack.extend((child, stored) for child in ast.iter_child_nodes(node))


def _stored(tree: ast.AST) -> set[str]:
    return {node.id for node in of_kind(tree, ast.Name) if isinstance(node.ctx, ast.Store)}


def _stored_before(tree: ast.AST) -> dict[ast.AST, set[str]]:
    """Return the variables that the statements before each statement of the same block store."""
    before: dict[ast.AST, set[str]] = {}
    for node in ast.walk(tree):
        for _, block in ast.iter_fields(node):
            earlier: set[str] = set()
            for statement in block if isinstance(block, list) else ():
                if isinstance(statement, ast.stmt):
                    before[statement] = earlier
                    earlier = earlier | _stored(statement)
    return before


def _switched_off(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what switches recording off for a statement: the item of a `with`, the decorator of a function."""
    held = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
    held += node.decorator_list if isinstance(node, ast.FunctionDef) else []
    for item in held:
        if last_name(item.func if isinstance(item, ast.Call) else item) in _OFF:
            yield item


def _called(function: str, sources: Sequence[tuple[str, Source]]) -> Span | None:
    """Return the one call of a function."""
    found = [
        (name, source, node)
        for name, source in sources
        for node in of_kind(source.tree, ast.Call)
        if name_called(node) == function
    ]
    return _span(*found[0]) if len(found) == 1 else None


def _span(name: str, source: Source, node: ast.expr) -> Span:
    last = node.end_lineno or node.lineno
    return Span(
        name, node.lineno, source.column(node.lineno, node.col_offset), last,
        source.column(last, node.end_col_offset or 0),
    )  # fmt: skip


def _writes_data(node: ast.AST) -> bool:
    return isinstance(node, ast.AugAssign) and attr_of(node.target) == "data"


def _is_cut(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return attr_of(node) == "data"
    name = method_called(node)
    return (
        name in _CUTTING
        or (name in ("tensor", "as_tensor") and any(not _literal(argument) for argument in node.args[:1]))
        or (name_called(node) == "grad" and _takes_constants(node))
    )


def _takes_constants(node: ast.Call) -> bool:
    """Return whether a call of `autograd.grad` may give gradients without graph; `func.grad` is given a function alone,
    and perhaps the numbers of its arguments.
    """
    graph = next((word.value for word in node.keywords if word.arg == "create_graph"), None)
    given = [*node.args[1:2], *(word.value for word in node.keywords if word.arg == "inputs")]
    recorded = isinstance(graph, ast.Constant) and bool(graph.value)
    return not recorded and any(not _literal(argument) for argument in given)


def _literal(node: ast.AST) -> bool:
    """Return whether a value can hold no tensor, as far as its text tells."""
    return not any(isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)) for inner in ast.walk(node))
