"""What code can do to graphs, told from its syntax: one index for each parsed file.

A *body* is a function, a method or a lambda's function around it; everything in it counts as its own, nested functions
too. Its effects are closed over what it calls: a bare name means the function or class of that name in the file,
`self.name` a method of the classes around, any other `.name` every method of that name. What the closure does not
find is a library's, or in another file, and has no effects.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tapecheck.interpret import limits
from tapecheck.interpret.objects.syntax import NUMERIC, is_array, root_of
from tapecheck.source import Source
from tapecheck.source.nodes import children, walk
from tapecheck.source.notes import placeless

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Effect(enum.IntFlag):
    """What a piece of code can do to graphs, as far as its syntax tells."""

    NONE = 0
    START = 1
    """Run a backward."""
    KEEP = 2
    """Store or collect what may hold a graph, in a loop or where a loop may call it."""
    CHANGE = 4
    """Change a tensor in place."""
    CUT = 8
    """Take a value out of its graph, or switch recording off."""
    DROP = 16
    """Empty a container or delete something."""
    COLLECT = 32
    """Collect or add up in a loop of its own."""
    STEP = 64
    """Take numbers out, step an optimizer or change a module's mode: what training and evaluation loops do."""
    CLEAR = 128
    """Clear gradients, or set them."""
    REQUIRE = 256
    """Make a tensor require grad."""
    FLAG = 512
    """Have a tensor require no grad, or as another one does."""
    BEGIN = START | REQUIRE
    SETTLE = START | REQUIRE | FLAG
    """Decide which graphs there are, and which of them a backward goes through."""


_MARKS = ("backward", "autograd", "grad(", "requires_grad", "torch", "lightning")
_BUILTINS = frozenset(dir(builtins))
_OF_PLAIN = frozenset(name for kind in (str, dict, list, set, int, float) for name in dir(kind) if name[0] != "_")
"""What is asked of texts, numbers and containers."""
_DEFINITIONS = frozenset((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda))
_SUSPENDING = frozenset((ast.Yield, ast.YieldFrom, ast.Await))
_LOOPS = frozenset((ast.For, ast.While, ast.AsyncFor))
_LAYERS = frozenset(("nn",))
"""What the names of layers that are made begin with."""
_OF_ENVIRONMENTS = frozenset(("reset", "step"))
"""Methods of gymnasium's environments: what they are given decides nothing that they return."""
_STARTING = frozenset((
    "backward", "grad", "hessian", "hvp", "jacobian", "jvp", "jacfwd", "jacrev", "manual_backward", "vhp",
    "vjp",
))  # fmt: skip
_STARTING_KEYWORDS = frozenset(("create_graph", "retain_graph"))
_CUTTING = frozenset(("data", "detach", "detach_", "inference_mode", "no_grad", "set_grad_enabled"))
_COLLECTING = frozenset(("append", "appendleft", "update"))
_KEEPING = _COLLECTING | frozenset((
    "add", "extend", "extendleft", "heappush", "insert", "push", "put", "put_nowait", "register_buffer", "setattr",
    "setdefault",
))  # fmt: skip
_DROPPING = frozenset(("clear", "pop", "popitem", "popleft", "remove"))
_CHOOSING = frozenset(("delattr", "get", "getattr", "hasattr", "pop", "setattr"))
_STEPPING = frozenset(("backward", "detach", "eval", "item", "step", "train", "zero_grad"))
_NUMBERS = frozenset(("float", "int", "len", "str", "bool", "round", "repr", "format", "time", "perf_counter"))
_TAKEN_OUT = frozenset((
    "detach", "dim", "format", "item", "join", "nelement", "numel", "numpy", "shape", "size", "tolist",
))  # fmt: skip

_CHILDREN: dict[type[ast.AST], tuple[str, ...]] = {
    kind: tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "type_comment", "kind", "annotation"))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
for _leaf in (ast.Name, ast.Constant, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.Pass, ast.alias):
    _CHILDREN[_leaf] = ()
_CHILDREN[ast.Attribute] = ("value",)
_CHILDREN[ast.keyword] = ("value",)
_CHILDREN[ast.arg] = ()


@dataclass(frozen=True, slots=True)
class Given:
    """An assignment: the last parts of its targets, those of the names that its value hangs on as a number.

    `passed` are the names that it passes to calls, each call by the name of what it calls, with a dot before that of
    a method: the number that a layer makes of them is nobody's to know. `made` is what it calls, by the first and the
    last part of each name.
    """

    targets: frozenset[str]
    names: frozenset[str]
    passed: tuple[tuple[str, frozenset[str]], ...]
    made: frozenset[str]


@dataclass(slots=True)
class Facts:
    """What one walk over a piece of code found.

    `names` are the bare names it mentions, `attributes` the attributes it reads or calls, `own` those of `self`.
    `stored` are the names it stores, dotted where they are attributes of a name ("self.h"); `loaded` those it reads.
    """

    effects: Effect = Effect.NONE
    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    called: bool = False
    tested: set[str] = field(default_factory=set)
    """The last parts of names in its conditions, in what its loops go through, in the flags of its backwards, and in
    what chooses one value of many: an index, the name of an attribute.
    """
    steering: set[str] = field(default_factory=set)
    """Those of them that do more than choose a side of an `if`: how often a loop goes round, what a backward keeps."""
    given: list[Given] = field(default_factory=list)
    gone_through: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """For each loop the last parts of its targets, and the names of what it goes through."""


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


@dataclass(slots=True)
class _Called:
    """What is called by one name: any of these bodies. `closed` is what they come to together."""

    bodies: tuple[Body, ...]
    closed: tuple[int, int] | None = None


def speaks_of_autograd(source: Source) -> bool:
    """Whether a file has any of the names without which nobody touches a graph."""
    return any(mark in source.text for mark in _MARKS)


def facts_of(nodes: Iterable[ast.AST], *, looping: bool = False, making: bool = False) -> Facts:
    """Return what a piece of code does by itself, in one walk over it.

    `making` says that it makes an object: what it stores as attributes of that is new, as the object is.
    """
    reader = _Reader(making)
    stack: list[tuple[ast.AST, bool]] = [(node, looping) for node in nodes]
    children, readers, name = _CHILDREN, _READERS, reader.name
    while stack:
        node, loops = stack.pop()
        kind = type(node)
        if kind is ast.Name:
            name(node)  # type: ignore[arg-type]
            continue
        read = readers.get(kind)
        if read is not None:
            read(reader, node, loops)
            loops = loops or kind in _LOOPS
        for field_name in children[kind]:
            child = getattr(node, field_name, None)
            if child.__class__ is list:
                for item in child:
                    if item.__class__ is not str and item is not None:
                        stack.append((item, loops))
            elif isinstance(child, ast.AST):
                stack.append((child, loops))
    return reader.finished()


# Plain numbers: an operation on flags takes ten times as long, and there is one for every few nodes.
_START, _KEEP, _CHANGE = int(Effect.START), int(Effect.KEEP), int(Effect.CHANGE)
_CUT, _DROP, _COLLECT, _STEP = int(Effect.CUT), int(Effect.DROP), int(Effect.COLLECT), int(Effect.STEP)
_CLEAR, _REQUIRE, _FLAG = int(Effect.CLEAR), int(Effect.REQUIRE), int(Effect.FLAG)
_STORED = {"requires_grad": _REQUIRE, "data": _CHANGE, "grad": _CLEAR}
"""What storing an attribute of a tensor does."""
_CALLED = {"zero_grad": _CLEAR, "step": _CHANGE, "no_grad": _CUT, "set_grad_enabled": _CUT, "inference_mode": _CUT}
"""What calls do besides what the other tables say of them."""


class _Reader:
    """Reads the nodes of a piece of code, one after the other in any order, and gathers what they do.

    `loops` says of a node whether it stands in a loop of the code. `inside` are the `and`s and `or`s in the condition
    of an `if`, by their `id`.
    """

    __slots__ = ("effects", "facts", "inside", "loaded", "making", "names", "stored")

    def __init__(self, making: bool) -> None:
        self.facts = facts = Facts()
        self.names, self.loaded, self.stored = facts.names, facts.loaded, facts.stored
        self.effects = 0
        self.inside: set[int] = set()
        self.making = making

    def finished(self) -> Facts:
        self.facts.tested |= self.facts.steering
        self.facts.effects = Effect(self.effects)
        return self.facts

    def name(self, node: ast.Name) -> None:
        if type(node.ctx) is ast.Load:
            self.names.add(node.id)
            self.loaded.add(node.id)
        else:
            self.stored.add(node.id)

    def attribute(self, node: ast.Attribute, loops: bool) -> None:
        attr, value = node.attr, node.value
        if type(value) is not ast.Name:
            self.facts.attributes.add(attr)
            if type(node.ctx) is not ast.Load:
                self.stored.add(f"?.{attr}")
                self.effects |= _KEEP | _STORED.get(attr, 0)
        elif type(node.ctx) is ast.Load:
            self.loaded.add(f"{value.id}.{attr}")
            (self.facts.own if value.id in ("self", "cls") else self.facts.attributes).add(attr)
        else:
            self.stored.add(f"{value.id}.{attr}")
            if not self.making or value.id != "self":
                self.effects |= _KEEP
            self.effects |= _STORED.get(attr, 0)
        if attr in _CUTTING:
            self.effects |= _CUT
        elif attr == "backward":
            self.effects |= _START

    def call(self, node: ast.Call, loops: bool) -> None:
        self.facts.called = True
        function = node.func
        called = function.attr if type(function) is ast.Attribute else getattr(function, "id", "")
        if called in _STARTING:
            self.effects |= _START
        elif called[-1:] == "_" and called[:1] != "_":
            # The functions of torch.nn.init switch recording off.
            if called != "requires_grad_" and _last(getattr(function, "value", function)) != "init":
                self.effects |= _CHANGE
            if called == "zero_":
                self.effects |= _CLEAR
        elif called in _DROPPING:
            # `os.remove` drops a file.
            self.effects |= 0 if root_of(function) in NUMERIC else _DROP
        elif called in _KEEPING and not _all_numbers(node.args):
            self.effects |= _KEEP
            if loops and called in _COLLECTING:
                self.effects |= _COLLECT
        if called in _STEPPING:
            self.effects |= _STEP
        elif called in _CHOOSING:
            _mention(node.args[:2], self.facts.tested)
        elif type(function) is ast.Call:
            _mention((function,), self.facts.tested)
        self.effects |= _CALLED.get(called, 0)
        if called == "requires_grad_" or called == "set_grad_enabled":
            _mention(node.args, self.facts.steering)
            if called == "requires_grad_":
                self.effects |= _FLAG if _only_follows(node.args) else _REQUIRE

    def keyword(self, node: ast.keyword, loops: bool) -> None:
        if node.arg == "requires_grad":
            self.effects |= _FLAG if _only_follows((node.value,)) else _REQUIRE
        elif node.arg in _STARTING_KEYWORDS:
            self.effects |= _START
        else:
            return
        _mention((node.value,), self.facts.steering)

    def chosen(self, node: ast.If | ast.IfExp, loops: bool) -> None:
        _mention((node.test,), self.facts.tested)
        self.inside.update(map(id, _bool_ops(node.test)))

    def operands(self, node: ast.BoolOp, loops: bool) -> None:
        chooses = id(node) in self.inside or all(map(_only_reads, node.values))
        _mention(node.values[:-1], self.facts.tested if chooses else self.facts.steering)

    def comprehension(self, node: ast.comprehension, loops: bool) -> None:
        _mention((node.iter, *node.ifs), self.facts.steering)

    def match(self, node: ast.Match, loops: bool) -> None:
        _mention((node.subject,), self.facts.steering)

    def while_loop(self, node: ast.While, loops: bool) -> None:
        _mention((node.test,), self.facts.steering)

    def for_loop(self, node: ast.For | ast.AsyncFor, loops: bool) -> None:
        _mention((node.iter,), self.facts.steering)
        self.facts.gone_through.append((frozenset(_parts_of((node.target,))), names_in(node.iter)))

    def assigned(self, node: ast.Assign, loops: bool) -> None:
        self.facts.given.append(_given(node.targets, node.value))

    def given(self, node: ast.AnnAssign | ast.NamedExpr, loops: bool) -> None:
        if node.value is not None:
            self.facts.given.append(_given((node.target,), node.value))

    def added(self, node: ast.AugAssign, loops: bool) -> None:
        target = node.target
        self.facts.given.append(_given((target,), node.value))
        if not is_number(node.value):
            self.effects |= _KEEP | _CHANGE
            if loops:
                self.effects |= _COLLECT
        if type(target) is ast.Name:
            self.loaded.add(target.id)
            self.names.add(target.id)
        elif type(target) is ast.Attribute and type(target.value) is ast.Name:
            self.loaded.add(f"{target.value.id}.{target.attr}")

    def item(self, node: ast.Subscript, loops: bool) -> None:
        _mention((node.slice,), self.facts.tested)
        if type(node.ctx) is ast.Store:
            self.effects |= _KEEP | _CHANGE

    def delete(self, node: ast.Delete, loops: bool) -> None:
        self.effects |= _DROP


_READERS: dict[type[ast.AST], Callable[[_Reader, Any, bool], None]] = {
    ast.Attribute: _Reader.attribute, ast.Call: _Reader.call, ast.keyword: _Reader.keyword,
    ast.If: _Reader.chosen, ast.IfExp: _Reader.chosen, ast.BoolOp: _Reader.operands,
    ast.comprehension: _Reader.comprehension, ast.Match: _Reader.match,
    ast.While: _Reader.while_loop, ast.For: _Reader.for_loop, ast.AsyncFor: _Reader.for_loop,
    ast.Assign: _Reader.assigned, ast.AnnAssign: _Reader.given, ast.NamedExpr: _Reader.given,
    ast.AugAssign: _Reader.added, ast.Subscript: _Reader.item, ast.Delete: _Reader.delete,
}  # fmt: skip


def _given(targets: Iterable[ast.expr], value: ast.expr) -> Given:
    """Return what an assignment gives its targets."""
    names: set[str] = set()
    passed: list[tuple[str, frozenset[str]]] = []
    stack: list[ast.AST] = [value]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is ast.Name:
            names.add(node.id)  # type: ignore[attr-defined]
            continue
        if kind is ast.Attribute:
            names.add(node.attr)  # type: ignore[attr-defined]
        elif kind is ast.Call:
            function = node.func  # type: ignore[attr-defined]
            called = _passes_to(function)
            if called:
                passed.append((called, names_in_all((*node.args, *node.keywords))))  # type: ignore[attr-defined]
                # The object itself, as in `text.split()`, and the function, as in `count()`, are part of the value.
                stack.append(function.value if type(function) is ast.Attribute else function)
                continue
        stack += _below(node)
    return Given(frozenset(_parts_of(targets)), frozenset(names), tuple(passed), frozenset(_made_by(value)))


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that code is made of."""
    for name in _CHILDREN[type(node)]:
        child = getattr(node, name, None)
        if child.__class__ is list:
            yield from (item for item in child if isinstance(item, ast.AST))
        elif isinstance(child, ast.AST):
            yield child


def _made_by(value: ast.expr) -> Iterator[str]:
    """Yield what an expression calls, each by the first and the last part of its name."""
    for part in walk(value):
        if isinstance(part, ast.Call):
            yield root_of(part.func)
            yield _last(part.func)


def _passes_to(function: ast.expr) -> str:
    """Return what a call passes its arguments to, empty where a number among them may come out as another one."""
    if type(function) is ast.Name:
        return "" if function.id in _BUILTINS else function.id
    if type(function) is not ast.Attribute or function.attr in _OF_PLAIN or root_of(function) in NUMERIC:
        return ""
    return f".{function.attr}"


def _only_follows(flags: Sequence[ast.expr]) -> bool:
    """Whether a flag is False, or what another tensor has: nothing requires grad that no tensor did before."""
    return len(flags) == 1 and (
        (isinstance(flags[0], ast.Constant) and flags[0].value is False)
        or (isinstance(flags[0], ast.Attribute) and flags[0].attr == "requires_grad")
    )


def _only_reads(node: ast.expr) -> bool:
    """Whether an expression calls nothing, so that nothing but its value hangs on whether it is evaluated."""
    return is_number(node) or not any(isinstance(part, (ast.Call, ast.Await)) for part in walk(node))


def _bool_ops(node: ast.expr) -> Iterator[ast.BoolOp]:
    return (part for part in walk(node) if isinstance(part, ast.BoolOp))


_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def jumps_of(nodes: Iterable[ast.AST], *, suspends: bool = True) -> frozenset[str]:
    """How a block may be left before its end: break, continue, return, value (a return with one), raise, yield.

    `suspends` says that the file has a `yield` or an `await`, which may stand within any expression.
    """
    found: set[str] = set()
    stack: list[tuple[ast.AST, bool]] = [(node, False) for node in nodes]
    while stack:
        node, loops = stack.pop()
        kind = type(node)
        if kind in _DEFINITIONS:
            continue
        if kind is ast.Return:
            found.add("return" if node.value is None else "value")  # type: ignore[attr-defined]
        elif kind is ast.Raise:
            found.add("raise")
        elif kind in _SUSPENDING:
            found.add("yield")
        elif kind is ast.Break and not loops:
            found.add("break")
        elif kind is ast.Continue and not loops:
            found.add("continue")
        inner = loops or kind in _LOOPS
        if suspends:
            stack.extend((child, inner) for child in children(node))
        else:
            for name in _BLOCKS:
                block = getattr(node, name, None)
                if block.__class__ is list:
                    stack += [(child, inner) for child in block]
    return frozenset(found)


def is_number(node: ast.expr) -> bool:
    """Whether an expression is provably a number, a text or a value outside of any graph."""
    if isinstance(node, (ast.Constant, ast.JoinedStr, ast.Compare)):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) or is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name):
            return function.id in _NUMBERS
        return isinstance(function, ast.Attribute) and function.attr in _TAKEN_OUT
    if isinstance(node, ast.Subscript):
        return is_number(node.value)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(is_number, node.elts))
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def stored_plain(nodes: Iterable[ast.AST]) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a piece of code leaves nothing but numbers, texts and arrays in; those that nobody can know."""
    plain: dict[str, int] = {}
    for node in nodes:
        _store_plain(node, plain)
    return (
        frozenset(name for name, known in plain.items() if known),
        frozenset(name for name, known in plain.items() if known == 2),
    )


def _store_plain(node: ast.AST, plain: dict[str, int]) -> None:
    """Note what a statement of a block leaves in names: 0 anything, 1 a number, 2 one that nobody can know."""
    if isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            _store_anywhere(item, plain)
        for statement in node.body:
            _store_plain(statement, plain)
    elif isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in node.targets):
        _store_anywhere(node.value, plain)
        # What the name held before is gone.
        plain.update((target.id, _plainness(node.value)) for target in node.targets if isinstance(target, ast.Name))
    else:
        _store_anywhere(node, plain)


def _store_anywhere(node: ast.AST, plain: dict[str, int]) -> None:
    """Note what code that may be run or not leaves in names."""
    stack = [node]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            known = _plainness(node.value)
            for target in targets:
                if isinstance(target, ast.Name):
                    plain[target.id] = min(known, plain.get(target.id, 2))
                else:
                    plain.update((part.id, 0) for part in walk(target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            plain.setdefault(node.id, 0)
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            plain.update((part.id, 0) for part in walk(node.target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            plain.update((part.id, 0) for part in walk(node.optional_vars) if isinstance(part, ast.Name))
        stack.extend(children(node))


def _plainness(value: ast.expr | None) -> int:
    return 0 if value is None else 2 if is_array(value) else int(is_number(value))


def _all_numbers(args: list[ast.expr]) -> bool:
    return bool(args) and all(map(is_number, args))


@placeless
def statement_facts(node: ast.stmt) -> Facts:
    """Return the facts of a statement of the module."""
    return facts_of((node,))


def _together(parts: Iterable[Facts]) -> Facts:
    """Return the facts of several pieces of code in one."""
    found = Facts()
    for part in parts:
        found.effects |= part.effects
        found.called = found.called or part.called
        found.names |= part.names
        found.attributes |= part.attributes
        found.own |= part.own
        found.stored |= part.stored
        found.loaded |= part.loaded
        found.tested |= part.tested
        found.steering |= part.steering
        found.given += part.given
        found.gone_through += part.gone_through
    return found


@placeless
def class_facts(node: ast.ClassDef) -> Facts:
    """Return the facts of a class without its methods."""
    others = [part for part in node.body if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return facts_of((*others, *node.bases, *node.keywords, *node.decorator_list))


@placeless
def _body_facts(node: FunctionNode, lines: list[str]) -> Facts:
    """Return the facts of a function: by its text, as that of an earlier state of the file may be the same."""
    text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    known = _FACTS.get(text)
    if known is None:
        if len(_FACTS) >= limits.MOST_BODIES:
            _FACTS.clear()
        known = _FACTS[text] = facts_of((node,), making=node.name == "__init__")
    return known


class Index:
    """The bodies of one file, with what they can do by themselves and by what they call.

    `before` is the index of an earlier state of the file: what it has worked out is taken over as far as the edit
    cannot have changed it.
    """

    def __init__(self, source: Source, before: Index | None = None) -> None:
        tree = source.tree
        self.notes = source.notes
        self.suspends = "yield" in source.text or "await" in source.text
        self._lines = source.parsed.lines if source.parsed is not None else source.lines
        self.class_facts: dict[str, Facts] = {}
        """What stands in the classes besides their methods."""
        self.functions: dict[str, Body] = {}
        self.classes: dict[str, dict[str, Body]] = {}
        self.class_nodes: dict[str, ast.ClassDef] = {}
        self.bodies: list[Body] = []
        self.methods: dict[str, list[Body]] = {}
        self._defined: list[tuple[str, ...]] = []
        """The functions of the file, its classes with what they are made from, and their methods."""
        self.rest: list[ast.stmt] = []
        """The statements of the module that define no function and no class."""
        for statement in tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = Body(statement, None, self._facts(statement))
                self.functions[statement.name] = body
                self._defined.append(("function", statement.name))
                self.bodies.append(body)
            elif isinstance(statement, ast.ClassDef):
                self._class(statement)
            else:
                self.rest.append(statement)
        # The last one first, as one walk over all of them would come to them.
        self.top = _together(self.notes.of(statement, statement_facts) for statement in reversed(self.rest))
        self._by_node = {id(body.node): body for body in self.bodies}
        self._tested: frozenset[str] | None = None
        self._steering: frozenset[str] | None = None
        self._leads: dict[str, set[str]] | None = None
        self._from: dict[str, set[str]] | None = None
        self._own_methods: dict[str, dict[str, list[Body]]] = {}
        self._bases: dict[str, list[str]] = {}
        self._made_from: dict[str, list[str]] = {}
        """The classes of the file that each class is made from, and those that are made from it."""
        for name, made in self.class_nodes.items():
            self._bases[name] = [one for one in dict.fromkeys(map(_last, made.bases)) if one in self.class_nodes]
            for one in self._bases[name]:
                self._made_from.setdefault(one, []).append(name)
        self._families: dict[str, tuple[str, ...]] = {}
        self._lasting = {id(body.facts) for body in self.bodies}
        self._callees: dict[tuple[int, str | None], tuple[Body, ...]] = {}
        self._named: dict[str | tuple[str, str], _Called] = {}
        """What is called by the name of a class, of a method (with a dot before it), of a method of a class."""
        self._calls: dict[int, tuple[Body | _Called, ...]] = {}
        self._bit: dict[str, int] = {}
        self._decoded: dict[int, frozenset[str]] = {}
        self._callables: frozenset[str] | None = None
        self._made: frozenset[str] | None = None
        self.shapes: object = None
        """The shapes of its conditions, see `watch`."""
        if before is not None and self._defined == before._defined:
            self._take_over(before)

    def _take_over(self, before: Index) -> None:
        """Take over what an earlier state's index has worked out, where the same things are defined."""
        pairs = zip(self._parts(), before._parts())
        changed = [(now, then) for now, then in pairs if now is not then and now != then]
        if all(self._calls_alike(now, then) for now, then in changed):
            self._bit, self._decoded = dict(before._bit), dict(before._decoded)
            for body, known in zip(self.bodies, before.bodies):
                body.closed = known.closed
        if before._made is not None and all(_decides_alike(now, then, before._made) for now, then in changed):
            self._made = before._made
            self._tested, self._steering = before._tested, before._steering
            self._leads, self._from = before._leads, before._from

    def _calls_alike(self, now: Facts, then: Facts) -> bool:
        """Whether two pieces of code do the same to graphs, and call the same things of the file."""
        callables = self.callables()
        return (
            now.effects == then.effects
            and set(_attributes_stored(now)) == set(_attributes_stored(then))
            and all(
                mine & callables == theirs & callables
                for mine, theirs in (
                    (now.names, then.names),
                    (now.attributes, then.attributes),
                    (now.own, then.own),
                )
            )
        )

    def _facts(self, node: FunctionNode) -> Facts:
        return self.notes.of(node, _body_facts, self._lines)

    def _class(self, node: ast.ClassDef) -> None:
        self.class_facts[node.name] = self.notes.of(node, class_facts)
        members = self.classes[node.name] = {}
        self.class_nodes[node.name] = node
        self._defined.append(("class", node.name, *map(_last, node.bases)))
        for member in node.body:
            if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                body = Body(member, node, self._facts(member))
                members[member.name] = body
                self.bodies.append(body)
                self.methods.setdefault(member.name, []).append(body)
                self._defined.append(("method", member.name))

    def family(self, name: str) -> tuple[str, ...]:
        """Return a class of the file with its bases and the classes made from it, as far as they stand in the file."""
        known = self._families.get(name)
        if known is None:
            known = self._families[name] = (*_closed((name,), self._bases), *_closed((name,), self._made_from)[1:])
        return known

    def is_module(self, name: str) -> bool:
        """Whether a class is one of torch's modules by the names of its bases."""
        return any(
            _last(base).endswith(("Module", "Sequential", "ModuleList"))
            for one in self.family(name)
            for base in self.class_nodes[one].bases
        )

    def callees(self, facts: Facts, owner: str | None) -> Iterable[Body]:
        """Return the bodies of this file that a piece of code may run."""
        if id(facts) not in self._lasting:
            return self._called(facts, owner)
        known = self._callees.get((id(facts), owner))
        if known is None:
            # Many names lead to one body.
            every = {id(body): body for body in self._called(facts, owner)}
            known = self._callees[id(facts), owner] = tuple(every.values())
        return known

    def _called(self, facts: Facts, owner: str | None) -> Iterator[Body]:
        for name in facts.names:
            body = self.functions.get(name)
            if body is not None:
                yield body
            elif name in self.classes:
                for one in self.family(name):
                    yield from self.classes[one].values()
        for name in facts.attributes:
            yield from self.methods.get(name, ())
        if facts.own:
            if owner is None or owner not in self.classes:
                # Of a class that a function defines only the names of its methods are known.
                for name in facts.own:
                    yield from self.methods.get(name, ())
            else:
                mine = self._own(owner)
                for name in facts.own:
                    yield from mine.get(name, ())

    def reach(self, facts: Facts, owner: str | None = None) -> tuple[Effect, frozenset[str]]:
        """Return the effects of a piece of code with all that it calls, and the attributes stored on the way."""
        effects = int(facts.effects)
        attributes = self._bits(_attributes_stored(facts))
        for called in self._calls_in(facts, owner):
            more, stored = self._reached(called)
            effects |= more
            attributes |= stored
        return Effect(effects), self._names_of(attributes)

    def callables(self) -> frozenset[str]:
        """Return the names by which the file's functions, methods and classes are called."""
        if self._callables is None:
            self._callables = frozenset(body.node.name for body in self.bodies) | self.class_nodes.keys()
        return self._callables

    def closure(self, body: Body) -> Effect:
        """Return the effects of a function with all that it calls."""
        return Effect(self._reached(body)[0])

    def closed_effects(self, body: Body) -> int:
        """Return those effects as a plain number."""
        return self._reached(body)[0]

    def closures_of_methods(self, name: str) -> tuple[int, ...]:
        """Return the effects of each method of a name with all that it calls."""
        return tuple([self._reached(body)[0] for body in self.methods.get(name, ())])

    def _reached(self, called: Body | _Called) -> tuple[int, int]:
        """Return the effects of a function with all that it calls, and the bits of the attributes stored on the way."""
        if called.closed is None:
            self._close(called)
        assert called.closed is not None
        return called.closed

    def _close(self, start: Body | _Called) -> None:
        """Work out `closed` of a function and of all that it calls, each of them once.

        Functions that call one another are one component of the graph of calls and have the same result (Tarjan).
        """
        number: dict[int, int] = {id(start): 0}
        low: dict[int, int] = {id(start): 0}
        open_: list[Body | _Called] = [start]
        inside = {id(start)}
        path: list[tuple[Body | _Called, Iterator[Body | _Called]]] = [(start, iter(self._calls_of(start)))]
        while path:
            caller, calls = path[-1]
            for called in calls:
                if called.closed is not None:
                    continue
                if id(called) not in number:
                    number[id(called)] = low[id(called)] = len(number)
                    open_.append(called)
                    inside.add(id(called))
                    path.append((called, iter(self._calls_of(called))))
                    break
                if id(called) in inside:
                    low[id(caller)] = min(low[id(caller)], number[id(called)])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[id(above)] = min(low[id(above)], low[id(caller)])
                if low[id(caller)] == number[id(caller)]:
                    first = next(at for at in range(len(open_) - 1, -1, -1) if open_[at] is caller)
                    component = open_[first:]
                    del open_[first:]
                    inside.difference_update(map(id, component))
                    self._close_component(component)

    def _close_component(self, component: list[Body | _Called]) -> None:
        effects = attributes = 0
        for one in component:
            if isinstance(one, Body):
                effects |= int(one.facts.effects)
                # What a constructor stores in its object is nobody else's yet.
                attributes |= self._bits(_attributes_stored(one.facts, making=one.node.name == "__init__"))
            for called in self._calls_of(one):
                if called.closed is not None:
                    effects |= called.closed[0]
                    attributes |= called.closed[1]
        for one in component:
            one.closed = effects, attributes

    def _calls_of(self, caller: Body | _Called) -> tuple[Body | _Called, ...]:
        if isinstance(caller, _Called):
            return caller.bodies
        known = self._calls.get(id(caller))
        if known is None:
            owner = caller.owner.name if caller.owner is not None else None
            known = self._calls[id(caller)] = tuple(self._calls_in(caller.facts, owner))
        return known

    def _calls_in(self, facts: Facts, owner: str | None) -> Iterator[Body | _Called]:
        """Yield what a piece of code may call: `callees`, with those of one name as one."""
        for name in facts.names:
            body = self.functions.get(name)
            if body is not None:
                yield body
            elif name in self.classes:
                yield self._called_by(name)
        for name in facts.attributes:
            if name in self.methods:
                yield self._called_by(f".{name}")
        for name in facts.own:
            if owner is not None and owner in self.classes:
                yield self._called_by((owner, name))
            elif name in self.methods:
                yield self._called_by(f".{name}")

    def _called_by(self, name: str | tuple[str, str]) -> _Called:
        known = self._named.get(name)
        if known is None:
            if isinstance(name, tuple):
                bodies: Iterable[Body] = self._own(name[0]).get(name[1], ())
            elif name[0] == ".":
                bodies = self.methods[name[1:]]
            else:
                bodies = (body for one in self.family(name) for body in self.classes[one].values())
            known = self._named[name] = _Called(tuple(bodies))
        return known

    def _own(self, owner: str) -> dict[str, list[Body]]:
        """Return what the methods of a class may be called by, in it, its bases and the classes made from it."""
        mine = self._own_methods.get(owner)
        if mine is None:
            mine = self._own_methods[owner] = {}
            for one in self.family(owner):
                for name, body in self.classes[one].items():
                    mine.setdefault(name, []).append(body)
        return mine

    def _bits(self, names: Iterable[str]) -> int:
        """Return a set of names as bits: sets of hundreds of names are joined thousands of times."""
        bits = 0
        for name in names:
            bits |= 1 << self._bit.setdefault(name, len(self._bit))
        return bits

    def _names_of(self, bits: int) -> frozenset[str]:
        known = self._decoded.get(bits)
        if known is None:
            known = self._decoded[bits] = frozenset(name for name, bit in self._bit.items() if bits >> bit & 1)
        return known

    def body_of(self, node: ast.AST) -> Body | None:
        return self._by_node.get(id(node))

    @property
    def tested(self) -> frozenset[str]:
        """The last parts of names that some condition, loop or flag of a backward hangs on, directly or by a name."""
        if self._tested is None:
            self._tested = self._worked_out_from({name for facts in self._parts() for name in facts.tested})
        return self._tested

    @property
    def steering(self) -> frozenset[str]:
        """Of the names in `tested` those that do more than choose a side of an `if`."""
        if self._steering is None:
            self._steering = self._worked_out_from({name for facts in self._parts() for name in facts.steering})
        return self._steering

    def _worked_out_from(self, names: set[str]) -> frozenset[str]:
        """Some names with those that they are worked out from."""
        if self._from is None:
            self._from = {}
            for targets, sources in self._given():
                for target in targets:
                    self._from.setdefault(target, set()).update(sources)
        return frozenset(_closed(names, self._from))

    def leads_to(self, name: str) -> frozenset[str]:
        """Return the names whose values a name goes into, itself among them; all by their last parts."""
        if self._leads is None:
            self._leads = {}
            for targets, sources in self._given():
                for source in sources:
                    self._leads.setdefault(source, set()).update(targets)
        return frozenset(_closed((name,), self._leads))

    def _given(self) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        """Yield for each assignment its targets and the names that their numbers are worked out from."""
        layers = self._layers()
        unknown = layers | (_OF_ENVIRONMENTS - self.callables())
        for facts in self._parts():
            for given in facts.given:
                names = given.names
                for called, passed in given.passed:
                    name = called.removeprefix(".")
                    # What else is called may well give a number that it is given.
                    if name not in unknown:
                        names |= passed | {name}
                yield given.targets, names

    def _layers(self) -> frozenset[str]:
        """Return the names in which the file stores nothing but layers and models that it makes."""
        modules = {name for name in self.class_nodes if self.is_module(name)} | _LAYERS
        made: set[str] = set()
        others: set[str] = set()
        for facts in self._parts():
            for given in facts.given:
                (others if given.made.isdisjoint(modules) else made).update(given.targets)
        self._made = frozenset(made)
        for facts in self._parts():
            for targets, names in facts.gone_through:
                (others if names.isdisjoint(made - others) else made).update(targets)
        return frozenset(made - others)

    def _parts(self) -> list[Facts]:
        return [self.top, *self.class_facts.values(), *(body.facts for body in self.bodies)]


def _decides_alike(now: Facts, then: Facts, made: frozenset[str]) -> bool:
    """Whether two pieces of code have the same conditions and loops, which hang on the same names.

    `made` are names that layers and models are stored in: another value may be stored in one of them, too.
    """
    return (
        now.tested == then.tested
        and now.steering == then.steering
        and now.gone_through == then.gone_through
        and [one for one in now.given if _leads(one, made)] == [one for one in then.given if _leads(one, made)]
    )


def _leads(given: Given, made: frozenset[str]) -> bool:
    """Whether an assignment says what a value is worked out from, or is to a name that holds layers, too."""
    return bool(given.names or given.passed or given.made) or not given.targets.isdisjoint(made)


def _attributes_stored(facts: Facts, *, making: bool = False) -> Iterator[str]:
    """Yield the attributes that a piece of code stores, those of `self` not where it makes that."""
    for name in facts.stored:
        if "." in name and not (making and name.startswith("self.")):
            yield name.rsplit(".", 1)[1]


def _closed(names: Iterable[str], led_to: Mapping[str, Iterable[str]]) -> list[str]:
    """Return names with all that they lead to, each once."""
    found = dict.fromkeys(names)
    queue = [*found]
    for one in queue:
        fresh = [other for other in led_to.get(one, ()) if other not in found]
        found.update(dict.fromkeys(fresh))
        queue += fresh
    return queue


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def _parts_of(targets: Iterable[ast.expr]) -> Iterator[str]:
    """Yield the last parts of the names that an assignment stores."""
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from _parts_of(target.elts)
        else:
            yield _last(target.value if isinstance(target, ast.Starred) else target)


def _mention(nodes: Iterable[ast.AST], found: set[str]) -> None:
    """Add the bare names and the attributes that expressions mention."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is ast.Name:
            found.add(node.id)  # type: ignore[attr-defined]
            continue
        if kind is ast.Attribute:
            found.add(node.attr)  # type: ignore[attr-defined]
        stack += _below(node)


def names_in_all(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the bare names and the attributes that some expressions mention."""
    found: set[str] = set()
    _mention(nodes, found)
    return frozenset(found)


def names_in(node: ast.AST) -> frozenset[str]:
    """Return the bare names and the attributes that an expression mentions."""
    kind = type(node)
    if kind is ast.Constant:
        return _NO_NAMES
    found: set[str] = set()
    _mention((node,), found)
    return frozenset(found)


_NO_NAMES: frozenset[str] = frozenset()


_FACTS: dict[str, Facts] = {}


def index_of(source: Source) -> Index:
    """Return the index of a parsed file, made once for each state of it."""
    return source.notes.of_file(_indexed, source)


def _indexed(before: Index | None, source: Source) -> Index:
    return Index(source, before)
