"""Whether those who call a function may have switched recording off, by the texts of a project's files alone."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tapecheck.source.nodes import children, id_of, last_name, name_called, of_kind
from tapecheck.source.text import Source

SWITCHES = frozenset(("no_grad", "inference_mode", "set_grad_enabled", "enable_grad"))
"""Names by which a program switches recording on and off."""
_OFF = frozenset(("no_grad", "inference_mode"))
SWITCHING_ON = SWITCHES - _OFF
"""Those of them that may switch it on."""
_UNSEEN = frozenset((
    "set_grad_enabled", "_set_grad_enabled", "__enter__", "enter_context", "enter_async_context", "exec",
))  # fmt: skip
"""Words by which a program switches recording off for whatever runs next, or runs a text."""
_BY_TEXT = frozenset(("getattr", "vars", "globals", "locals", "__dict__", "attrgetter", "methodcaller"))
"""Words by which a program takes a function by the text of its name."""
_MOST_NAMES = 40
"""Functions whose callers are looked for, one leading to the next."""
_PLAIN_DECORATORS = frozenset(("abstractmethod", "classmethod", "staticmethod"))
_PLAIN_BASES = frozenset(("ABC", "Module", "object"))
"""Base classes that call no method of a class by a name of its own."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something stands: the innermost function and its class, if any. `open` says that what runs there may not
    run as its caller does: in a block of a context manager, under a decorator, in a lambda or a generator.
    """

    function: str = ""
    owner: str = ""
    open: bool = False


@dataclass(slots=True)
class _Names:
    """What a file says of names: the places that call each, those that name it otherwise, its classes' bases, and what
    is imported, each name with the last part of its module's.
    """

    calls: dict[str, list[_Place]] = field(default_factory=lambda: defaultdict(list))
    named: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    bases: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    imported: dict[str, str] = field(default_factory=dict)
    generators: set[str] = field(default_factory=set)


def times_named(tree: ast.Module) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return how often a file names what it does, how often it calls that, and how often where recording is off."""
    unrecorded: Counter[str] = Counter()
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, off = waiting.pop()
        if off and isinstance(node, ast.Call):
            unrecorded[name_called(node)] += 1
        waiting += ((one, _off_within(node, off)) for one in children(node))
    named = Counter(map(last_name, of_kind(tree, ast.expr)))
    return named, Counter(map(name_called, of_kind(tree, ast.Call))), unrecorded


def _off_within(node: ast.AST, off: bool) -> bool:
    """Return whether recording is surely off where what stands in a node runs, by whether it is around that."""
    match node:
        case ast.With():
            names = {name_called(item.context_expr) for item in node.items}
            return bool(names & _OFF or off) and names.isdisjoint(SWITCHING_ON)
        case ast.FunctionDef():
            # What a function does is done when it is called; a generator runs as whoever draws from it.
            return not _of_yields(node) and any(last_name(_called(one)) in _OFF for one in node.decorator_list)
        case ast.AsyncFunctionDef() | ast.Lambda() | ast.GeneratorExp():
            return False
    return off


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def may_be_unrecorded(
    name: str,
    files: Iterable[str],
    source_of: Callable[[str], Source | None],
    words_of: Callable[[str], Iterable[str]],
) -> bool:
    """Return whether a function may be called where recording is off: by one of some files, which are all that can come
    to it, or by code that one of them hands it to.

    Each place that names it has to be a call that runs as its function does, and the same has to hold for this one.
    """
    words = {file: words_of(file) for file in files}
    if any(not _UNSEEN.isdisjoint(one) for one in words.values()):
        return True
    texts = _Texts(words, source_of, by_text=any(not _BY_TEXT.isdisjoint(one) for one in words.values()))
    asked, waiting = {name}, [name]
    while waiting:
        above = texts.callers(waiting.pop())
        if above is None or len(asked) > _MOST_NAMES:
            return True
        waiting += above - asked
        asked |= above
    return False


@dataclass(slots=True)
class _Texts:
    """Some files, with what they say of names; `by_text` says that a text may name a function, too."""

    words: Mapping[str, Iterable[str]]
    source_of: Callable[[str], Source | None]
    by_text: bool = False

    def callers(self, name: str) -> set[str] | None:
        """Return the functions that call one, by name; None where one of them may do so in a mode of its own."""
        found: set[str] = set()
        for file, names in self.naming(name):
            if names is None or name in names.named or name in names.generators:
                return None
            if self.by_text and name in names.texts:
                return None
            for place in names.calls.get(name, ()):
                above = self.above(place, file)
                if above is None:
                    return None
                found.add(above)
        return found - {""}

    def naming(self, name: str) -> Iterator[tuple[str, _Names | None]]:
        """Yield the files that hold a name; None where a part that does not parse may name it."""
        for file in (file for file, words in self.words.items() if name in words):
            source = self.source_of(file)
            if source is None or any(name in source.lines[number - 1] for number in source.blanked):
                yield file, None
            else:
                yield file, source.notes.of(source.tree, _names)

    def above(self, place: _Place, file: str) -> str | None:
        """Return the name by which the function around a place is called, empty where there is none; None where it may
        be called in a way that nobody sees, or need not run as its caller does.
        """
        if place.open or (place.owner and not self._is_plain(place.owner, file, frozenset())):
            return None
        if place.function == "__init__":
            return place.owner or None
        return None if place.function.startswith("__") or place.function == "forward" else place.function

    def _is_plain(self, owner: str, file: str, derived: frozenset[tuple[str, str]]) -> bool:
        """Return whether all that a class derives from is written in these files, or calls no method by itself."""
        names = dict(self.naming(owner)).get(file)
        if names is None or owner not in names.bases or (file, owner) in derived:
            return False
        for base in names.bases[owner]:
            if last_name(base) in _PLAIN_BASES:
                continue
            home = self._home(id_of(base), file, names)
            if home is None or not self._is_plain(id_of(base), home, derived | {(file, owner)}):
                return False
        return True

    def _home(self, base: str, file: str, names: _Names) -> str | None:
        """Return the file that a class comes from which another one names, None where it is none of these."""
        if base in names.bases:
            return file
        module = names.imported.get(base)
        found = [one for one in self.words if module is not None and module in (Path(one).stem, Path(one).parent.name)]
        defining = [one for one in found if base in self.words[one]]
        return next(
            (one for one, other in self.naming(base) if one in defining and other and base in other.bases), None
        )


def _names(tree: ast.Module) -> _Names:
    found = _Names()
    waiting: list[tuple[ast.AST, _Place]] = [(tree, _Place())]
    while waiting:
        node, place = waiting.pop()
        if isinstance(node, ast.Call) and (name := last_name(node.func)):
            found.calls[name].append(place)
            waiting += ((one, place) for one in _of_call(node))
        else:
            _note(node, found)
            inner = _inner(node, place, found)
            waiting += ((one, inner) for one in children(node))
    return found


def _note(node: ast.AST, found: _Names) -> None:
    """Note what a node names, other than to call it."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            found.named.add(name)
        case ast.Constant(value=str(text)):
            found.texts.add(text.rpartition(".")[2].rpartition(":")[2])
        case ast.ImportFrom(names=names):
            found.named |= {one.name for one in names if one.asname and one.asname != one.name}
            found.imported.update((one.asname or one.name, (node.module or "").split(".")[-1]) for one in names)


def _inner(node: ast.AST, place: _Place, found: _Names) -> _Place:
    """Return the place of what stands in a node."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _within_function(node, place, found)
        case ast.Lambda():
            return replace(place, open=True)
        case ast.With() | ast.AsyncWith() if not all(_is_harmless(one.context_expr) for one in node.items):
            return replace(place, open=True)
        case ast.ClassDef(name=name):
            found.bases[name] += node.bases
            return _Place(owner=name, open=place.open)
    return place


def _within_function(node: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place, found: _Names) -> _Place:
    yields = _of_yields(node)
    if yields:
        found.generators.add(node.name)
    decorated = any(last_name(one) not in _PLAIN_DECORATORS for one in node.decorator_list)
    is_open = place.open or yields or decorated or isinstance(node, ast.AsyncFunctionDef)
    # What a function defines within itself may be called by whoever gets it.
    return _Place(node.name, "" if place.function else place.owner, is_open)


def _of_yields(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(one, ast.Yield | ast.YieldFrom) for one in of_kind(node, ast.expr))


def _of_call(call: ast.Call) -> list[ast.AST]:
    """Return what stands in a call but for the name that it calls."""
    return [*([call.func.value] if isinstance(call.func, ast.Attribute) else []), *call.args, *call.keywords]


def _is_harmless(context: ast.expr) -> bool:
    """Return whether a context manager leaves recording as it is: a file, or one of torch's own but its switches."""
    if not isinstance(context, ast.Call):
        return False
    root = context.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return last_name(root) in ("open", "torch") and last_name(context.func) not in SWITCHES
