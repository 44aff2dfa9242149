"""What of a program notices that a value has no graph any more, though it is the same."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tapecheck.fixes.candidate import Context
from tapecheck.fixes.code import Code, dotted, root_name
from tapecheck.fixes.ops import may_write, op_called
from tapecheck.fixes.story import frames
from tapecheck.source.modules import SOURCES
from tapecheck.source.nodes import STORES, attr_of, id_of, is_read, last_name, method_called, name_called, of_kind, walk
from tapecheck.tape import Bind, Hold, Leaf, Span

_ASKING = frozenset((
    "grad_fn", "is_grad_enabled", "is_inference", "is_inference_mode_enabled", "is_leaf", "register_hook",
    "requires_grad", "retain_grad", "retains_grad",
))  # fmt: skip
"""Attributes and functions that say whether there is a graph, or need one."""
_COMPUTING = "abs bool dict float int isinstance len max min print range round str"
_PLAIN = frozenset(f"builtins.{name}" for name in _COMPUTING.split())
REFUSING = frozenset(("numpy", "requires_grad_", "__array__"))
"""Methods of tensors that raise where there is a graph."""
_OF_OBJECTS = frozenset(("builtins.id", "operator.is_", "operator.is_not", "weakref.ref", "weakref.proxy"))
"""Functions that are about an object, whatever its value."""
_HASHING = frozenset(("builtins.dict.fromkeys", "builtins.frozenset", "builtins.set", "collections.Counter"))
_BY_ELEMENT = frozenset(("add", "count", "discard", "index", "remove"))
"""Methods of lists and sets that look for an element."""
_MODULE = "<module>"
_SEE_ALL = frozenset(f"builtins.{name}" for name in ("eval", "exec", "globals", "locals", "vars"))
_STORING = STORES | frozenset(("popleft",))
_OF_PARAMETERS = frozenset(("named_parameters", "parameters"))


def asks_for_graphs(context: Context) -> bool:
    """Return whether a file that has a part in the finding asks of a value, not of a parameter, for its graph."""
    return any(next(_asking(code.tree), None) is not None for code in context.files)


def doubt_of_detaching(context: Context) -> str:
    """Return what to check where the program may see that a value is another object without a graph; else nothing."""
    # A file is the same for all findings of a report, and each of them has several strategies that ask.
    known: dict[tuple[str, str], tuple[ast.AST, str] | None] = context.report.kept.setdefault("noticing", {})
    for code in context.files:
        key = code.source.path, code.source.text
        if key not in known:
            known[key] = next(_noticing(context, code), None)
        noticing = known[key]
        if noticing is not None:
            return _check(context, code, *noticing)
    return ""


def _noticing(context: Context, code: Code) -> Iterator[tuple[ast.AST, str]]:
    """Yield what in a file may see that a value is another object without a graph, each with what it does."""
    yield from ((node, "asks whether there is a graph") for node in _asking(code.tree))
    yield from ((node, "asks which object a value is") for node in _telling_apart(code))
    yield from ((node, "finds a tensor by which object it is") for node in _finding(code, _with_graphs(context)))
    yield from (
        (node, "gives a tensor other memory, which one without a graph has not") for node in _moving(context, code)
    )
    yield from ((node, "goes on where something refuses a value with a graph") for node in _surviving(code))


def doubt_of_recording(context: Context) -> str:
    """Return what to check where values may have graphs that had none: what refuses one, or asks for it."""
    if (refusal := next(_refusals(context), None)) is not None:
        return _check(context, *refusal, "may refuse a value with a graph")
    asking = ((code, node) for code in context.files for node in _asking(code.tree))
    return next((_check(context, code, node, "asks whether there is a graph") for code, node in asking), "")


def _check(context: Context, code: Code, node: ast.AST, what: str) -> str:
    where = "" if code is context.code else f" of {Path(code.source.path).name}"
    return f"Check line {getattr(node, 'lineno', 1)}{where}, which {what}."


_CATCHING = frozenset(("assertRaises", "assertRaisesRegex", "raises", "suppress"))
"""Context managers of contextlib, unittest and pytest that take exceptions."""


def _surviving(code: Code) -> Iterator[ast.AST]:
    """Yield the blocks that go on where something in them refuses a value with a graph."""
    tried: list[ast.Try | ast.With] = [node for node in of_kind(code.tree, ast.Try) if any(map(_takes, node.handlers))]
    tried += [node for node in of_kind(code.tree, ast.With) if _suppresses(code, node)]
    refusing = _refusing(code) if tried else set()
    for node in tried:
        parts = (part for one in node.body for part in ast.walk(one))
        if any(_refuses(code, part) or name_called(part) in refusing for part in parts):
            yield node


def _refusing(code: Code) -> set[str]:
    """Return the names of a file's functions in which something refuses a value with a graph, if only in a call."""
    inside = {one.name: list(ast.walk(one)) for one in of_kind(code.tree, ast.FunctionDef)}
    found = {name for name, parts in inside.items() if any(_refuses(code, part) for part in parts)}
    while True:
        more = {name for name, parts in inside.items() if not found.isdisjoint(map(name_called, parts))} - found
        if not more:
            return found
        found |= more


def _takes(handler: ast.ExceptHandler) -> bool:
    """Return whether a handler takes what tensors raise."""
    kinds = {last_name(part) for part in ast.walk(handler.type)} if handler.type is not None else {"Exception"}
    return not kinds.isdisjoint(("BaseException", "Exception", "RuntimeError", "TypeError", "ValueError"))


def _suppresses(code: Code, block: ast.With) -> bool:
    """Return whether a block may take what is raised in it, as those of tests and the program's own `__exit__` do."""
    called = {last_name(part.func) for item in block.items for part in of_kind(item, ast.Call)}
    return not called.isdisjoint(_CATCHING) or any(
        one.name in called and any(_takes_errors(part) for part in one.body) for one in of_kind(code.tree, ast.ClassDef)
    )


def _takes_errors(part: ast.stmt) -> bool:
    """Return whether a statement of a class is an `__exit__` that returns more than nothing."""
    if not isinstance(part, ast.FunctionDef) or part.name != "__exit__":
        return False
    given = [node.value for node in of_kind(part, ast.Return) if node.value is not None]
    return any(not isinstance(value, ast.Constant) or bool(value.value) for value in given)


def _telling_apart(code: Code) -> Iterator[ast.AST]:
    """Yield what asks whether two values are one and the same object."""
    defined = {node.name for node in ast.walk(code.tree) if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    for node in of_kind(code.tree, ast.Compare):
        sides = [node.left, *node.comparators]
        for operator, *pair in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(operator, (ast.Is, ast.IsNot)) and not any(_is_no_tensor(code, one, defined) for one in pair):
                yield node
    yield from (node for node in of_kind(code.tree, ast.Call) if code.path(node.func) in _OF_OBJECTS)


_Scopes = dict[str, set[str]]
"""Names, each with the functions that it is one of."""


def _with_graphs(context: Context, *, leaves: bool = True) -> _Scopes:
    """Return the names of tensors that have a graph, leaves among them if they are wanted, and of what holds them."""
    found: _Scopes = {}
    for tape in context.tapes:
        left_out = set() if leaves else {event.id for event in tape.events if isinstance(event, Leaf)}
        for event in tape.events:
            if isinstance(event, Hold) or (
                isinstance(event, Bind) and event.node is not None and event.node not in left_out
            ):
                name = event.holder if isinstance(event, Hold) else event.name
                found.setdefault(name, set()).add(event.at.function.rpartition(".")[2])
    return found


def _moving(context: Context, code: Code) -> Iterator[ast.AST]:
    """Yield what gives a computed tensor other memory: one that was detached from it before keeps the old memory."""
    names = _with_graphs(context, leaves=False)
    _hand_on(code, names)
    stored = (one for one in of_kind(code.tree, ast.Attribute) if one.attr == "data" and not is_read(one))
    yield from (one for one in stored if _is_known(code, one.value, names))
    for call in of_kind(code.tree, ast.Call):
        moved = [call.func.value] if isinstance(call.func, ast.Attribute) and call.func.attr == "set_" else []
        moved += call.args if last_name(call.func) == "swap_tensors" else []
        if any(_is_known(code, one, names) for one in moved):
            yield call


def _finding(code: Code, names: _Scopes) -> Iterator[ast.AST]:
    """Yield what looks values with such names up: a set, the keys of a dict and `in` tell tensors by their identity."""
    _hand_on(code, names)
    for node in of_kind(code.tree, ast.AST):
        if any(_is_known(code, part, names) for key in _looked_up(code, node) if key for part in _parts(key)):
            yield node


def _hand_on(code: Code, names: _Scopes) -> None:
    """Add the parameters that the file's own functions are given such values by, three calls deep."""
    functions = {one.name: one for one in of_kind(code.tree, ast.FunctionDef)}
    calls = [
        (functions[name], one) for one in of_kind(code.tree, ast.Call) if (name := last_name(one.func)) in functions
    ]
    for _ in range(3):
        for function, call in calls:
            plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
            given = [*zip(plain[code.owner(function) is not None :], call.args, strict=False)]
            given += [(one.arg, one.value) for one in call.keywords if one.arg is not None]
            for name, value in given:
                if _is_known(code, value, names):
                    names.setdefault(name, set()).add(function.name)


def _is_known(code: Code, value: ast.expr, names: _Scopes) -> bool:
    """Return whether a value has one of some names where it stands, or is an element of one that has."""
    while isinstance(value, ast.Subscript):
        value = value.value
    name = dotted(value)
    if name is None or name not in names:
        return False
    if not isinstance(value, ast.Name):
        return True
    function = code.function(value)
    own = code.stores(function, name) or any(one.arg == name for one in of_kind(function, ast.arg))
    return (getattr(function, "name", _MODULE) if own else _MODULE) in names[name]


def _parts(key: ast.expr) -> list[ast.expr]:
    """Return the elements of a tuple, which has their hashes; else the key itself."""
    return [part for one in key.elts for part in _parts(one)] if isinstance(key, ast.Tuple) else [key]


def _looked_up(code: Code, node: ast.AST) -> Iterable[ast.expr | None]:
    match node:
        case ast.Subscript(slice=key):
            return [key]
        case ast.Dict(keys=keys):
            return keys
        case ast.DictComp(key=key):
            return [key]
        case ast.Set(elts=parts):
            return parts
        case ast.Compare() if any(isinstance(one, (ast.In, ast.NotIn)) for one in node.ops):
            return [node.left]
        case ast.Call() if attr_of(node.func) in _BY_ELEMENT or code.path(node.func) in _HASHING:
            return node.args
    return ()


def _is_no_tensor(code: Code, node: ast.expr, defined: set[str]) -> bool:
    """Return whether an expression is a constant, a type, or what an import or a definition gives its name."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Call):
        return code.path(node.func) in ("builtins.object", "builtins.type")
    path = code.path(node)
    # What a call gave has the path of what was called.
    return bool(path and "(" not in path) or id_of(node) in defined


def refuses_graphs(context: Context) -> bool:
    """Return whether a file that has a part in the finding calls what raises where a value has a graph."""
    return next(_refusals(context), None) is not None


def _refusals(context: Context) -> Iterator[tuple[Code, ast.AST]]:
    return ((code, node) for code in context.files for node in of_kind(code.tree, ast.AST) if _refuses(code, node))


def _refuses(code: Code, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return attr_of(node) in REFUSING
    path = code.path(node.func)
    # What Python's own library does with a tensor it does by the tensor's methods; a copy asks for its graph.
    known = ("", "torch", *sys.stdlib_module_names)
    return path.partition(".")[0] not in known or path.startswith("copy.") or fills(node)


def fills(call: ast.Call) -> bool:
    """Return whether a call writes its result into a tensor that it is given: no graph can lead through that."""
    return any(keyword.arg in ("out", None) for keyword in call.keywords)


def lists_names(code: Code) -> bool:
    """Return whether a file may see all names of a place, those that a fix adds among them."""
    return any(code.path(node.func) in _SEE_ALL for node in of_kind(code.tree, ast.Call))


def catches(bodies: Iterable[ast.AST]) -> bool:
    """Return whether code goes on behind an exception: what only a recorded value raises would then be missing."""
    return any(node.handlers for body in bodies for node in of_kind(body, ast.Try))


def _asking(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what asks for a graph, or names what does."""
    parameters = set(_parameters(tree))
    for node in of_kind(tree, ast.Attribute):
        if node.attr in _ASKING and is_read(node) and id_of(node.value) not in parameters:
            yield node
    yield from (node for node in of_kind(tree, ast.Constant) if isinstance(node.value, str) and node.value in _ASKING)
    yield from (
        node for node in of_kind(tree, ast.ImportFrom) if not _ASKING.isdisjoint(alias.name for alias in node.names)
    )


def _parameters(tree: ast.AST) -> Iterator[str]:
    """Yield the names that loops over parameters bind."""
    loops: list[ast.For | ast.comprehension] = [*of_kind(tree, ast.For), *of_kind(tree, ast.comprehension)]
    for node in loops:
        if any(part.attr in _OF_PARAMETERS for part in of_kind(node.iter, ast.Attribute)):
            yield from (name.id for name in of_kind(node.target, ast.Name))


def only_kept(context: Context, call: ast.Call, stored: Span) -> bool:
    """Return whether a call does nothing with what it is given but store it, and numbers made of it, where `stored` is.

    Every function on the way to the store must be visible, return nothing, and hand its values to nothing else.
    """
    functions: dict[int, tuple[Code, ast.AST]] = {}
    through: set[ast.expr] = set()
    for at in (event.at for event in context.events(Hold)):
        places = frames(at) if (at.file, at.line) == (stored.file, stored.line) else ()
        around = next((n for n, place in enumerate(places) if context.code.expression_at(place) is call), 0)
        for place in places[:around]:
            code = _code_of(context, place.file)
            statement = code.statement_at(place) if code is not None else None
            if code is None or statement is None:
                return False
            function = code.function(statement)
            functions[id(function)] = code, function
            through.update(node for node in (code.expression_at(place),) if node is not None)
    return bool(functions) and all(_only_stores(code, one, through) for code, one in functions.values())


def _code_of(context: Context, path: str) -> Code | None:
    known = context.code if path == context.code.source.path else context.codes.get(path)
    source = SOURCES.get(path) if known is None else None
    return Code(source) if source is not None else known


def _only_stores(code: Code, function: ast.AST, through: set[ast.expr]) -> bool:
    """Return whether a function returns nothing, changes nothing that it was given, and calls only what keeps nothing
    of its arguments but a container's own method.
    """
    arguments = getattr(function, "args", None)
    if not isinstance(arguments, ast.arguments):
        return False
    own = [*arguments.posonlyargs, *arguments.args][: code.owner(function) is not None]
    given = {one.arg for one in of_kind(arguments, ast.arg) if one not in own}
    return not any(_does_more(code, node, given) for node in walk(function)[1:] if node not in through)


def _does_more(code: Code, node: ast.AST, given: set[str]) -> bool:
    """Return whether a node gives something back, waits, defines a function, changes what is given or hands it on."""
    match node:
        case ast.Yield() | ast.YieldFrom() | ast.Await() | ast.Lambda() | ast.FunctionDef():
            return True
        case ast.Return(value=value):
            return value is not None and not isinstance(value, ast.Constant)
        case ast.AugAssign(target=target):
            return root_name(target) in given
        case ast.Call():
            return not _computes_or_stores(code, node)
    return False


def _computes_or_stores(code: Code, call: ast.Call) -> bool:
    path = code.path(call.func)
    if path.startswith(("math.", "numpy.")) or path in _PLAIN or (not path and method_called(call) in _STORING):
        return True
    fact = op_called(code, call)
    return fact is not None and not may_write(fact)
