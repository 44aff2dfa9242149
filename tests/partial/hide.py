"""Variants of a program: one part of it hidden from the analysis, moved to another file, or called something else.

What is hidden stands in a module that only the run finds (in another folder, on its path), so that a variant does what
the program does: what torch says of the program is true of the variant. `split` variants have the part in a file beside
the program and `renamed` ones other local names; nothing is hidden from the analysis in these.

Lines stay where they were; `Variant.original` says which line of the program a line of a variant was.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

HIDDEN = "hidden_part"
"""What modules that hold a part are called, with a number behind it."""
PART = "part_of_it"
"""The name of what a module holds that has none in the program."""
HOLDER = "holder_of_it"
"""The object that holds it where it is a method."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (*_DEFINITIONS, ast.Lambda)
_IMPORTS = (ast.Import, ast.ImportFrom)
_BOUND_TO_ITS_PLACE = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Starred)
_PLAIN = (ast.Name, ast.Constant, ast.Attribute)
_TELLS_OF_ITS_PLACE = frozenset(
    ("super", "locals", "globals", "vars", "eval", "exec", "__class__", "__file__", "__name__")
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A program changed in one place. `module` is the name of the file that holds the part, "" where there is none.

    `lines` and `body_lines` have the line of the program for each line of the text and of the module, 0 for a new one.
    """

    kind: str
    part: str
    text: str
    module: str = ""
    body: str = ""
    lines: tuple[int, ...] = ()
    body_lines: tuple[int, ...] = ()
    twin: str = ""
    """The same text with another name for what is hidden: as much is said of it."""

    @property
    def hides(self) -> bool:
        return self.kind not in ("split", "renamed")

    def original(self, line: int, *, in_module: bool = False) -> int:
        """Return the line of the program that a line was, 0 for one that no line of it was."""
        known = self.body_lines if in_module else self.lines
        if not known and not in_module:
            return line
        return known[line - 1] if 0 < line <= len(known) else 0


def variants(text: str) -> Iterator[Variant]:
    """Yield all variants of a program, each with a module of its own; nothing of a text that does not parse."""
    program = Program(text)
    number = 0
    for make in (
        _definitions,
        _bases,
        _methods,
        _decorators,
        _wrapped,
        _values,
        _loops,
        _conditions,
        _contexts,
        _options,
        _calls,
        _defaults,
        _makers,
        _operands,
        _handed,
        _named,
        _split,
        _renamed,
    ):
        for variant in make(program):
            number += 1
            try:
                ast.parse(variant.text)
                ast.parse(variant.body)
            except SyntaxError:
                continue
            module = f"{HIDDEN}_{number}"
            yield Variant(
                variant.kind,
                variant.part,
                variant.text.replace(_PLACEHOLDER, module),
                module if variant.module else "",
                variant.body,
                variant.lines,
                variant.body_lines,
                variant.twin.replace(_PLACEHOLDER, module),
            )


_PLACEHOLDER = f"{HIDDEN}_here"


@dataclass(slots=True)
class Program:
    """A program's text and tree, and what stands at its top level."""

    text: str
    tree: ast.Module = field(init=False)
    starts: list[int] = field(init=False)
    definitions: dict[str, Definition] = field(init=False)
    imports: list[ast.Import | ast.ImportFrom] = field(init=False)
    imported: set[str] = field(init=False)
    stored: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.text)
        self.starts = [0]
        for line in self.text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        body = self.tree.body
        self.definitions = {node.name: node for node in body if isinstance(node, _DEFINITIONS)}
        self.imports = [node for node in body if isinstance(node, _IMPORTS) and not _is_future(node)]
        self.imported = {
            (alias.asname or alias.name).partition(".")[0] for node in self.imports for alias in node.names
        }
        self.stored = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.stored[node.id] = self.stored.get(node.id, 0) + 1

    def offset(self, line: int, column: int) -> int:
        """Return the place in the text of a line, from 1, and a column in bytes of UTF-8, as `ast` has it."""
        start = self.starts[line - 1]
        row = self.text[start : self.starts[line] - 1]
        return start + len(row.encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0),
        )

    def segment(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def header(self) -> list[str]:
        """Return the lines of the program's imports, for a module that holds a part of it."""
        return [line for node in self.imports for line in self.segment(node).split("\n")]

    def with_import(self, text: str, clause: str) -> str | None:
        """Return a text whose first lines are still the program's with a clause behind its last import."""
        if not self.imports:
            return None
        leading = [node for node in self.imports if all(n.lineno >= node.lineno for n in self.definitions.values())]
        if not leading:
            return None
        place = self.span(leading[-1])[1]
        return f"{text[:place]}; {clause}{text[place:]}" if text[:place] == self.text[:place] else None

    def names_everywhere(self) -> set[str]:
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _blanked(text: str, lines: int) -> str:
    """Return a text that fills as many lines."""
    return text + "\n" * lines


def _replaced(program: Program, edits: Iterable[tuple[int, int, str]]) -> str:
    text = program.text
    for start, end, content in sorted(edits, reverse=True):
        text = text[:start] + content + text[end:]
    return text


def free_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the names that some code reads and does not bind itself, in order; None of Python's own among them."""
    read: dict[str, None] = {}
    bound: set[str] = set()
    for node in nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                if isinstance(inner.ctx, ast.Load):
                    read[inner.id] = None
                else:
                    bound.add(inner.id)
            elif isinstance(inner, ast.arg):
                bound.add(inner.arg)
            elif isinstance(inner, (*_DEFINITIONS, ast.ExceptHandler)) and inner.name:
                bound.add(inner.name)
    return [name for name in read if name not in bound and not hasattr(builtins, name)]


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_constant, node.elts))
    return isinstance(node, ast.UnaryOp) and _is_constant(node.operand)


def _constants(program: Program) -> dict[str, ast.Assign]:
    """Return the names that the module stores once, as a constant."""
    return {
        node.targets[0].id: node
        for node in program.tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and len(node.targets) == 1
        and program.stored[node.targets[0].id] == 1
        and _is_constant(node.value)
    }


def _tied(node: ast.AST) -> bool:
    """Return whether code cannot be moved: it says where it stands, or has a part in how its function runs."""
    return any(
        isinstance(inner, _BOUND_TO_ITS_PLACE) or (isinstance(inner, ast.Name) and inner.id in _TELLS_OF_ITS_PLACE)
        for inner in ast.walk(node)
    )


def _needed(program: Program, first: Iterable[ast.AST], known: Iterable[str] = ()) -> dict[str, ast.stmt] | None:
    """Return what else has to move along with some code, by name: definitions and constants; None where it cannot."""
    constants, moved = _constants(program), dict.fromkeys(known)
    found: dict[str, ast.stmt] = {}
    waiting = list(first)
    while waiting:
        for name in free_names([waiting.pop()]):
            if name in program.imported or name in found or name in moved:
                continue
            node: ast.stmt | None = program.definitions.get(name) or constants.get(name)
            if node is None or (name in program.definitions and program.stored.get(name)):
                return None
            found[name] = node
            waiting.append(node)
    globals_written = [n for node in found.values() for n in ast.walk(node) if isinstance(n, ast.Global)]
    return None if globals_written else found


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, _DEFINITIONS) else []
    return min([node.lineno, *(one.lineno for one in decorators)])


def _moved(program: Program, kind: str, part: str, parts: Mapping[str, ast.stmt]) -> Variant:
    """Return the program with whole statements of its top level in the module: an import stands for each."""
    lines, rest = program.text.split("\n"), program.text.split("\n")
    body, numbers = program.header(), []
    numbers = [0] * len(body)
    for name, node in sorted(parts.items(), key=lambda pair: pair[1].lineno):
        first, last = _first_line(node), node.end_lineno or node.lineno
        body += lines[first - 1 : last]
        numbers += range(first, last + 1)
        rest[first - 1 : last] = [f"from {_PLACEHOLDER} import {name}"] + [""] * (last - first)
    return Variant(kind, part, "\n".join(rest), "here", "\n".join(body) + "\n", (), tuple(numbers))


def _groups(program: Program) -> Iterator[tuple[str, dict[str, ast.stmt]]]:
    """Yield each definition with what it needs, and all of them together."""
    names = {name: [node] for name, node in program.definitions.items()}
    if len(names) > 1:
        names["all"] = list(program.definitions.values())
    seen = []
    for part, nodes in names.items():
        if any(isinstance(inner, ast.Global) for node in nodes for inner in ast.walk(node)):
            continue
        own = {node.name: node for node in nodes}
        more = _needed(program, nodes, own)
        if more is None or any(program.stored.get(name) for name in own):
            continue
        found = {**own, **more}
        if found.keys() not in seen:
            seen.append(found.keys())
            yield part, found


def _definitions(program: Program) -> Iterator[Variant]:
    for part, found in _groups(program):
        node = program.definitions.get(part)
        kind = "definitions" if node is None else "class" if isinstance(node, ast.ClassDef) else "function"
        yield _moved(program, kind, part, found)


def _split(program: Program) -> Iterator[Variant]:
    for part, found in _groups(program):
        yield _moved(program, "split", part, found)


def _bound_once(program: Program, kind: str, part: str, node: ast.expr) -> Variant | None:
    """Return the program with an expression that needs nothing but imports bound to a name of the module."""
    if _tied(node) or set(free_names([node])) - program.imported:
        return None
    start, end = program.span(node)
    lines = (node.end_lineno or node.lineno) - node.lineno
    content = f"({_blanked(PART, lines)})" if lines else PART
    text = program.with_import(_replaced(program, [(start, end, content)]), f"from {_PLACEHOLDER} import {PART}")
    if text is None:
        return None
    body = "\n".join([*program.header(), f"{PART} = ({program.segment(node)})"]) + "\n"
    return Variant(kind, part, text, "here", body)


def _called(
    program: Program, kind: str, part: str, node: ast.expr, *, name: str = PART, owner: str = ""
) -> Variant | None:
    """Return the program with an expression worked out by a function of the module, from the names that it reads.

    `name` is what the function is called, `owner` the object of the module that it is a method of.
    """
    if _tied(node):
        return None
    given = ", ".join(one for one in free_names([node]) if one not in program.imported)
    start, end = program.span(node)
    lines = (node.end_lineno or node.lineno) - node.lineno
    content = f"{owner}{'.' if owner else ''}{name}({given}{_blanked('', lines)})"
    text = program.with_import(
        _replaced(program, [(start, end, content)]), f"from {_PLACEHOLDER} import {owner or name}"
    )
    if text is None:
        return None
    body = [*program.header(), f"def {name}({given}):", "    return (", program.segment(node), "    )"]
    if owner:
        body += [f"class {owner}:", f"    {name} = staticmethod({name})"]
    return Variant(kind, part, text, "here", "\n".join(body) + "\n")


def _bases(program: Program) -> Iterator[Variant]:
    for node in ast.walk(program.tree):
        if isinstance(node, ast.ClassDef):
            for base in node.bases:
                variant = _bound_once(program, "base", f"{node.name} line {node.lineno}", base)
                if variant is not None:
                    yield variant


def _methods(program: Program) -> Iterator[Variant]:
    for node in program.definitions.values():
        if not isinstance(node, ast.ClassDef):
            continue
        for method in node.body:
            if not isinstance(method, ast.FunctionDef) or _says_super(method):
                continue
            found = _needed(program, [method])
            if found is None or node.name in found:
                continue
            yield _method(program, node, method, found)


def _says_super(node: ast.AST) -> bool:
    """Return whether a method has the class that it stands in, or names mangled by it."""
    return any(
        (isinstance(inner, ast.Name) and inner.id in _TELLS_OF_ITS_PLACE)
        or (isinstance(inner, ast.Attribute) and inner.attr.startswith("__") and not inner.attr.endswith("__"))
        or isinstance(inner, (ast.Global, ast.Nonlocal))
        for inner in ast.walk(node)
    )


def _method(program: Program, owner: ast.ClassDef, method: ast.FunctionDef, needed: Mapping[str, ast.stmt]) -> Variant:
    moved = _moved(program, "method", f"{owner.name}.{method.name}", needed)
    first, last = _first_line(method), method.end_lineno or method.lineno
    lines, rest = program.text.split("\n"), moved.text.split("\n")
    indent = " " * method.col_offset
    rest[first - 1 : last] = [f"{indent}from {_PLACEHOLDER} import {method.name}"] + [""] * (last - first)
    own = [line[method.col_offset :] if line.startswith(indent) else line for line in lines[first - 1 : last]]
    body = moved.body + "\n".join(own) + "\n"
    numbers = (*moved.body_lines, *range(first, last + 1))
    return Variant("method", moved.part, "\n".join(rest), "here", body, (), numbers)


def _decorators(program: Program) -> Iterator[Variant]:
    for node in ast.walk(program.tree):
        if isinstance(node, _DEFINITIONS):
            for one in node.decorator_list:
                variant = _bound_once(program, "decorator", f"{node.name} line {one.lineno}", one)
                if variant is not None:
                    yield variant


def _wrapped(program: Program) -> Iterator[Variant]:
    """Yield the program with a decorator on each function that gives it back as it is."""
    lines = program.text.split("\n")
    for node in ast.walk(program.tree):
        if isinstance(node, ast.FunctionDef):
            first = _first_line(node)
            text = program.with_import(program.text, f"from {_PLACEHOLDER} import {PART}")
            if text is None:
                return
            changed = text.split("\n")
            changed.insert(first - 1, f"{' ' * node.col_offset}@{PART}")
            numbers = [*range(1, first), 0, *range(first, len(lines) + 1)]
            body = f"def {PART}(function):\n    return function\n"
            part = f"{node.name} line {node.lineno}"
            yield Variant("wrapped", part, "\n".join(changed), "here", body, tuple(numbers))


def _values(program: Program) -> Iterator[Variant]:
    """Yield the program with what a statement of its top level makes, or one constant, made by the module."""
    for node in program.tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) > 1 or _tied(node.value):
            continue
        target = node.targets[0]
        names = [target] if isinstance(target, ast.Name) else getattr(target, "elts", [])
        if not names or not all(isinstance(one, ast.Name) for one in names):
            continue
        if set(free_names([node.value])) - program.imported or node.col_offset:
            continue
        lines = program.text.split("\n")
        first, last = node.lineno, node.end_lineno or node.lineno
        whole = program.segment(node)
        if lines[first - 1][: len(whole.split("\n")[0])] != whole.split("\n")[0] or ";" in lines[last - 1]:
            continue
        told = ", ".join(one.id for one in names)
        lines[first - 1 : last] = [f"from {_PLACEHOLDER} import {told}"] + [""] * (last - first)
        body = "\n".join([*program.header(), whole]) + "\n"
        kind = "constant" if _is_constant(node.value) else "value"
        yield Variant(kind, told, "\n".join(lines), "here", body)


def _loops(program: Program) -> Iterator[Variant]:
    """Yield the program with what a loop goes over, or its length, made by the module."""
    for node in ast.walk(program.tree):
        if not isinstance(node, (ast.For, ast.comprehension)):
            continue
        over = node.iter
        part = f"line {over.lineno}"
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "range":
            variant = _bound_once(program, "length", part, over.args[-1]) if _is_constant(over.args[-1]) else None
        elif isinstance(node, ast.comprehension):
            variant = None
        else:
            variant = _called(program, "dataset", part, over)
        if variant is not None:
            yield variant


def _conditions(program: Program) -> Iterator[Variant]:
    for node in ast.walk(program.tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            if "__name__" in ast.dump(node.test):
                continue
            make = _bound_once if isinstance(node.test, ast.Constant) else _called
            variant = make(program, "condition", f"line {node.test.lineno}", node.test)
            if variant is not None:
                yield variant


def _contexts(program: Program) -> Iterator[Variant]:
    for node in ast.walk(program.tree):
        if isinstance(node, ast.With):
            for item in node.items:
                variant = _called(program, "context", f"line {item.context_expr.lineno}", item.context_expr)
                if variant is not None:
                    yield variant


def _options(program: Program) -> Iterator[Variant]:
    """Yield the program with a constant, a loop's length or a flag that is given on the command line."""
    found: list[ast.expr] = [node.value for node in _constants(program).values()]
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            found.append(node.args[-1])
        elif isinstance(node, ast.keyword):
            found.append(node.value)
        elif isinstance(node, ast.Compare):
            found += node.comparators
    for value in found:
        if not isinstance(value, ast.Constant) or not isinstance(value.value, (bool, int, float)):
            continue
        known = value.value
        how = f"action='store_{str(not known).lower()}'" if isinstance(known, bool) else f"type={type(known).__name__}"
        clause = (
            f"import argparse; parser = argparse.ArgumentParser(); "
            f"parser.add_argument('--given', {how}, default={known!r}); options = parser.parse_args()"
        )
        text = _replaced(program, [(*program.span(value), "options.given")])
        if {"parser", "options"} & program.names_everywhere():
            return
        text = program.with_import(text, clause)
        if text is not None:
            yield Variant("option", f"{known!r} line {value.lineno}", text)


def _defaults(program: Program) -> Iterator[Variant]:
    """Yield the program with the default of a parameter, an argument by keyword, or what a class has under a name,
    taken from the module.
    """
    found: list[tuple[str, ast.expr]] = []
    for node in ast.walk(program.tree):
        if isinstance(node, ast.arguments):
            found += [("default", one) for one in (*node.defaults, *node.kw_defaults) if one is not None]
        elif isinstance(node, ast.Call):
            found += [("argument", one.value) for one in node.keywords if one.arg and _is_constant(one.value)]
        elif isinstance(node, ast.ClassDef):
            found += [("attribute", one.value) for one in node.body if isinstance(one, ast.Assign)]
    for kind, value in found:
        variant = _bound_once(program, kind, f"line {value.lineno}", value)
        if variant is not None:
            yield variant


def _makers(program: Program) -> Iterator[Variant]:
    """Yield the program with a library's function that it calls, or one that it looks up, got by the module."""
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Call):
            called, part = node.func, f"line {node.lineno}"
            variant = None
            if isinstance(called, ast.Attribute) and set(free_names([called])) <= program.imported:
                variant = _bound_once(program, "maker", part, called)
            elif isinstance(called, (ast.Subscript, ast.Call)):
                variant = _called(program, "maker", part, called)
            if variant is not None:
                yield variant


def _operands(program: Program) -> Iterator[Variant]:
    """Yield the program with an operand of a sum or product worked out by the module."""
    for node in ast.walk(program.tree):
        if isinstance(node, ast.BinOp):
            for side in (node.left, node.right):
                if not isinstance(side, _PLAIN) and not _is_constant(side):
                    variant = _called(program, "operand", f"line {side.lineno} column {side.col_offset}", side)
                    if variant is not None:
                        yield variant


def _handed(program: Program) -> Iterator[Variant]:
    """Yield the program with what is stored under a name handed through the module, which gives it back as it is, or
    shown to it, which does nothing.
    """
    for node in ast.walk(program.tree):
        if not isinstance(node, ast.Assign) or _is_constant(node.value) or isinstance(node.value, ast.Starred):
            continue
        start, end = program.span(node.value)
        value = program.segment(node.value)
        target, part = node.targets[0], f"line {node.lineno}"
        wrapped = f"{PART}(({value}))" if isinstance(node.value, ast.Tuple) else f"{PART}({value})"
        texts = [("through", _replaced(program, [(start, end, wrapped)]), "return given")]
        if isinstance(target, (ast.Name, ast.Attribute)) and program.text[end : end + 1] == "\n":
            shown = f"; {PART}({program.segment(target)})"
            texts.append(("shown", _replaced(program, [(end, end, shown)]), "pass"))
        for kind, text, does in texts:
            changed = program.with_import(text, f"from {_PLACEHOLDER} import {PART}")
            if changed is not None:
                yield Variant(kind, part, changed, "here", f"def {PART}(given):\n    {does}\n")


def _worked_out(program: Program) -> Iterator[ast.expr]:
    """Yield what the statements work out, or do."""
    for node in ast.walk(program.tree):
        value = None
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr, ast.AnnAssign)):
            value = node.value
        if value is None or isinstance(value, _PLAIN) or _is_constant(value):
            continue
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
            continue
        yield value


def _calls(program: Program) -> Iterator[Variant]:
    """Yield the program with what one statement works out, or does, done by a function of the module."""
    for value in _worked_out(program):
        variant = _called(program, "callee", f"line {value.lineno}", value)
        if variant is not None:
            yield variant


def _named(program: Program) -> Iterator[Variant]:
    """Yield the program with what a statement does hidden behind a name that seems to say what it is, each with a twin
    that has a neutral one: a function and a method in turn.
    """
    taken = program.imported | program.names_everywhere()
    taken |= {node.attr for node in ast.walk(program.tree) if isinstance(node, ast.Attribute)}
    # A definition that nothing calls would take the place of what is imported under its name.
    taken |= {node.name for node in ast.walk(program.tree) if isinstance(node, _DEFINITIONS)}
    free = [one for one in TELLING if one not in taken]
    for number, value in enumerate(_worked_out(program), len(program.text)):
        owner = HOLDER if number % 2 else ""
        name = free[number % len(free)]
        told = _called(program, "named", f"line {value.lineno}: {owner}.{name}", value, name=name, owner=owner)
        neutral = _called(program, "named", "", value, owner=owner)
        if told is not None and neutral is not None:
            yield replace(told, twin=neutral.text)


@cache
def _known_attributes() -> frozenset[str]:
    """Return the names that values of Python, torch and numpy have: none of them is the program's own."""
    import collections
    import random

    import numpy
    import torch
    import torch.utils.data

    makers = [
        object,
        type,
        list,
        dict,
        set,
        str,
        int,
        float,
        tuple,
        collections.deque,
        collections.OrderedDict,
        random,
        numpy,
        numpy.ndarray,
        torch,
        torch.Tensor,
        torch.nn,
        torch.nn.Module,
        torch.nn.Parameter,
        torch.nn.Sequential,
        torch.nn.ModuleList,
        torch.nn.ModuleDict,
        torch.nn.LSTM,
        torch.nn.functional,
        torch.optim,
        torch.optim.Optimizer,
        torch.optim.LBFGS,
        torch.optim.lr_scheduler.LRScheduler,
        torch.optim.lr_scheduler.ReduceLROnPlateau,
        torch.utils.data.DataLoader,
        torch.utils.data.Dataset,
        torch.utils.data.Sampler,
        torch.autograd,
        torch.autograd.Function,
        torch.autograd.function.FunctionCtx,
        torch.distributions.Distribution,
        torch.amp.GradScaler,
        torch.distributions.Normal,
        torch.distributions.Categorical,
    ]
    lightning = ("training_step", "validation_step", "test_step", "configure_optimizers", "fit", "device", "log")
    return frozenset(name for maker in makers for name in dir(maker)) | frozenset(lightning)


TELLING = (
    "log", "write", "save", "check_gradients", "test_step", "record", "append", "flush", "join", "add_scalar", "close",
    "scheduler", "info", "plot", "update", "eval_loss", "no_grad", "catalog", "report", "train", "detach", "step",
    "backward", "zero_grad", "item", "clear", "validate", "draw", "show", "requires_grad", "data", "target",
    "prepare", "generate", "to", "cpu", "scale", "size", "keys", "numpy", "eval", "parameters", "get", "count", "mean",
    "perf_counter", "time", "np", "load_state_dict", "reset", "debug", "shape", "device", "pop", "extend", "grad",
)  # fmt: skip
"""Names that a reader may take for a promise of what is behind them. They promise nothing."""


def _renamed(program: Program) -> Iterator[Variant]:
    """Yield the program with neutral names of its own, and with names that seem to say what they stand for.

    Variables, parameters, functions, classes and methods are renamed, not what strings name.
    """
    names, methods = _own_names(program)
    if names:
        yield Variant("renamed", "all names", _with_names(program, _neutral(names), methods))
        attributes = {node.attr for node in ast.walk(program.tree) if isinstance(node, ast.Attribute)}
        taken = program.imported | program.names_everywhere() | attributes | methods
        free = [one for one in TELLING if one not in taken]
        start = len(program.text) % (len(free) or 1)
        free = [*free[start:], *free[:start]]
        # What is called comes first, so that it is what has such a name.
        ordered = [one for one in names if one in methods or one in program.definitions]
        telling = dict(zip([*ordered, *(one for one in names if one not in ordered)], free, strict=False))
        yield Variant("renamed", "telling names", _with_names(program, _neutral(names) | telling, methods))


def _neutral(names: Sequence[str]) -> dict[str, str]:
    return {one: f"n{number}_" for number, one in enumerate(names)}


def _own_names(program: Program) -> tuple[list[str], set[str]]:
    """Return the names that can be replaced by others, and which of them are methods."""
    tree = program.tree
    said = " ".join(
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    fields = {
        one.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    } | {
        inner.id
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.Assign)
        for inner in ast.walk(one)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }
    methods = {
        one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for one in node.body
        if isinstance(one, ast.FunctionDef)
    }
    attributes_stored = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)} - methods
    own_methods = methods - _known_attributes() - attributes_stored - names
    if any(isinstance(node, ast.Import) for node in ast.walk(tree) if isinstance(node, _SCOPES)):
        return [], set()
    taken = keywords | fields | program.imported | methods | set(re.findall(r"\w+", said)) | {"self", "cls", "ctx", "_"}
    ordered = sorted(one for one in (names - taken) | (own_methods - set(re.findall(r"\w+", said)) - keywords))
    ordered = [one for one in ordered if not one.startswith("__") and not hasattr(builtins, one)]
    if sys.version_info < (3, 12):
        # Tokens end at a formatted string there.
        shown = {
            getattr(inner, "id", "") or getattr(inner, "attr", "")
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for inner in ast.walk(node)
        }
        ordered = [one for one in ordered if one not in shown]
    return ordered, own_methods


def _with_names(program: Program, new: Mapping[str, str], methods: set[str]) -> str:
    import io
    import tokenize

    places: list[tuple[int, int, str]] = []
    before = ""
    parts: Sequence[tokenize.TokenInfo] = list(tokenize.generate_tokens(io.StringIO(program.text).readline))
    for number, token in enumerate(parts):
        if token.type == tokenize.NAME and token.string in new:
            attribute = before == "." and not (number > 1 and parts[number - 2].string == ".")
            if attribute == (token.string in methods) or (before == "def" and token.string in methods):
                at = program.starts[token.start[0] - 1] + token.start[1]
                places.append((at, at + len(token.string), new[token.string]))
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            before = token.string
    return _replaced(program, places)
