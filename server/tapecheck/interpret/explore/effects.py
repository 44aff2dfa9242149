"""What a piece of code can do to graphs by itself, told from its syntax in one walk over it."""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tapecheck.interpret.explore.numbers import all_numbers, is_number
from tapecheck.interpret.objects.syntax import NUMERIC, root_of
from tapecheck.interpret.values import ByKind
from tapecheck.source import Source
from tapecheck.source.nodes import STORES, attr_of, is_literal, last_name, of_kind, taken_apart, walk
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
    """Empty a container, delete something or change an order."""
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
    READ = 1024
    """Look at a gradient."""
    WRAP = 2048
    """Wrap a model: a backward then does what it would not do without."""
    EVALUATE = 4096
    """Take numbers out, or change a module's mode, where it goes through something in a loop of its own."""
    BEGIN = START | REQUIRE
    SETTLE = START | REQUIRE | FLAG
    """Decide which graphs there are, and which of them a backward goes through."""


_MARKS = ("backward", "autograd", "grad(", "requires_grad", "torch", "lightning")
_BUILTINS = frozenset(dir(builtins))
_OF_PLAIN = frozenset(name for kind in (str, dict, list, set, int, float) for name in dir(kind) if name[0] != "_")
"""What is asked of texts, numbers and containers."""
_LOOPS = frozenset((ast.For, ast.While, ast.AsyncFor))
_STARTING = frozenset((
    "backward", "grad", "hessian", "hvp", "jacobian", "jvp", "jacfwd", "jacrev", "manual_backward", "vhp",
    "vjp",
))  # fmt: skip
_STARTING_KEYWORDS = frozenset(("create_graph", "retain_graph"))
_CUTTING = frozenset(("data", "detach", "detach_", "inference_mode", "no_grad", "set_grad_enabled"))
_COLLECTING = frozenset(("append", "appendleft", "update"))
_KEEPING = STORES | frozenset(("heappush", "put_nowait", "register_buffer", "setattr"))
_DROPPING = frozenset(("clear", "pop", "popitem", "popleft", "remove", "reverse", "rotate", "sort"))
_FILLING = frozenset(dir(list) + dir(set)) & (_KEEPING | _DROPPING)
_CHOOSING = frozenset(("delattr", "get", "getattr", "hasattr", "pop", "setattr"))
PARALLEL, COMPILE = "DistributedDataParallel", "compile"
WRAPPING = frozenset((PARALLEL, COMPILE))
"""Names of what wraps a model."""
_STEPPING = frozenset(("backward", "detach", "eval", "item", "step", "train", "zero_grad"))

# The fields of each kind of node that hold code.
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
class Assignment:
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
    assignments: list[Assignment] = field(default_factory=list)
    gone_through: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    """For each loop the last parts of its targets, and the names of what it goes through."""
    filled: set[str] = field(default_factory=set)
    """The last parts of the names of the lists and sets that it adds elements to, or takes some out of."""
    hands_on: bool = False
    """Whether it is the forward of a layer that may return a number which it is given."""


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
_READ, _WRAP, _EVALUATE = int(Effect.READ), int(Effect.WRAP), int(Effect.EVALUATE)
_CLEAR, _REQUIRE, _FLAG = int(Effect.CLEAR), int(Effect.REQUIRE), int(Effect.FLAG)
_STORED = {"requires_grad": _REQUIRE, "data": _CHANGE, "grad": _CLEAR}
"""What storing an attribute of a tensor does."""
_CALLED = {"zero_grad": _CLEAR, "step": _CHANGE, "no_grad": _CUT, "set_grad_enabled": _CUT, "inference_mode": _CUT}
"""What calls do besides what the other tables say of them."""


def _of_call(node: ast.Call, called: str, loops: bool) -> int:
    """Return what a call does by the kind of name that it calls; `loops` says whether it stands in a loop."""
    function = node.func
    if called in _STARTING:
        return _START
    if called[-1:] == "_" and called[:1] != "_":
        # The functions of torch.nn.init switch recording off.
        changes = called != "requires_grad_" and last_part(getattr(function, "value", function)) != "init"
        return (_CHANGE if changes else 0) | (_CLEAR if called == "zero_" else 0)
    if called in _DROPPING:
        # `os.remove` drops a file.
        return 0 if root_of(function) in NUMERIC else _DROP
    match node:
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), _]) if name in _STORED:
            return _KEEP | _STORED[name]
    if called in _KEEPING and not all_numbers(node.args):
        return _KEEP | (_COLLECT if loops and called in _COLLECTING else 0)
    return 0


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
        if self.effects & _STEP and self.facts.gone_through:
            self.effects |= _EVALUATE
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
        elif attr == "grad" and type(node.ctx) is ast.Load:
            self.effects |= _READ

    def call(self, node: ast.Call, loops: bool) -> None:
        self.facts.called = True
        function = node.func
        called = function.attr if type(function) is ast.Attribute else getattr(function, "id", "")
        self.effects |= _of_call(node, called, loops) | _CALLED.get(called, 0)
        if called in _FILLING and type(function) is ast.Attribute:
            self.facts.filled.add(last_part(function.value))
        if called in _STEPPING:
            self.effects |= _STEP
        elif called in _CHOOSING:
            _mention(node.args[:2], self.facts.tested)
        elif type(function) is ast.Call:
            _mention((function,), self.facts.tested)
        if called in ("requires_grad_", "set_grad_enabled"):
            _mention(node.args, self.facts.steering)
        if called == PARALLEL or (called == COMPILE and root_of(function) not in ("re", "regex")):
            self.effects |= _WRAP
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
        self.inside.update(map(id, of_kind(node.test, ast.BoolOp)))

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
        self.facts.gone_through.append((frozenset(map(last_part, taken_apart((node.target,)))), names_in(node.iter)))

    def assigned(self, node: ast.Assign, loops: bool) -> None:
        self.facts.assignments.append(_assignment(node.targets, node.value))

    def annotated(self, node: ast.AnnAssign | ast.NamedExpr, loops: bool) -> None:
        if node.value is not None:
            self.facts.assignments.append(_assignment((node.target,), node.value))

    def added(self, node: ast.AugAssign, loops: bool) -> None:
        target = node.target
        self.facts.assignments.append(_assignment((target,), node.value))
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


_READERS: ByKind[_Reader, [bool], None] = ByKind()
_READERS.register(_Reader.attribute, ast.Attribute)
_READERS.register(_Reader.call, ast.Call)
_READERS.register(_Reader.keyword, ast.keyword)
_READERS.register(_Reader.chosen, ast.If)
_READERS.register(_Reader.chosen, ast.IfExp)
_READERS.register(_Reader.operands, ast.BoolOp)
_READERS.register(_Reader.comprehension, ast.comprehension)
_READERS.register(_Reader.match, ast.Match)
_READERS.register(_Reader.while_loop, ast.While)
_READERS.register(_Reader.for_loop, ast.For)
_READERS.register(_Reader.for_loop, ast.AsyncFor)
_READERS.register(_Reader.assigned, ast.Assign)
_READERS.register(_Reader.annotated, ast.AnnAssign)
_READERS.register(_Reader.annotated, ast.NamedExpr)
_READERS.register(_Reader.added, ast.AugAssign)
_READERS.register(_Reader.item, ast.Subscript)
_READERS.register(_Reader.delete, ast.Delete)


def _assignment(targets: Iterable[ast.expr], value: ast.expr) -> Assignment:
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
    return Assignment(
        frozenset(map(last_part, taken_apart(targets))), frozenset(names), tuple(passed), frozenset(_made_by(value))
    )


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
    for part in of_kind(value, ast.Call):
        yield root_of(part.func)
        yield last_part(part.func)


def _passes_to(function: ast.expr) -> str:
    """Return what a call passes its arguments to, empty where a number among them may come out as another one."""
    if type(function) is ast.Name:
        return "" if function.id in _BUILTINS else function.id
    if type(function) is not ast.Attribute or function.attr in _OF_PLAIN or root_of(function) in NUMERIC:
        return ""
    return f".{function.attr}"


def _only_follows(flags: Sequence[ast.expr]) -> bool:
    """Whether a flag is False, or what another tensor has: nothing requires grad that no tensor did before."""
    return len(flags) == 1 and (is_literal(flags[0], False) or attr_of(flags[0]) == "requires_grad")


def _only_reads(node: ast.expr) -> bool:
    """Whether an expression calls nothing, so that nothing but its value hangs on whether it is evaluated."""
    return is_number(node) or not any(isinstance(part, (ast.Call, ast.Await)) for part in walk(node))


@placeless
def statement_facts(node: ast.AST) -> Facts:
    """Return the facts of a statement, or an expression."""
    return facts_of((node,))


def together(parts: Iterable[Facts]) -> Facts:
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
        found.assignments += part.assignments
        found.gone_through += part.gone_through
        found.filled |= part.filled
    return found


@placeless
def class_facts(node: ast.ClassDef) -> Facts:
    """Return the facts of a class without its methods."""
    others = [part for part in node.body if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return facts_of((*others, *node.bases, *node.keywords, *node.decorator_list))


def last_part(node: ast.expr) -> str:
    """Return the last part of a dotted name without its index, empty where an expression is none."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return last_name(node)


def hands_on_numbers(node: FunctionNode) -> bool:
    """Whether a method returns what it is given, or what arithmetic alone makes of it, perhaps in a tuple."""
    arguments = node.args
    given = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args[1:], *arguments.kwonlyargs)}
    stored: dict[str, list[ast.expr]] = {}
    returned: list[ast.expr] = []
    for part in walk(node):
        match part:
            case ast.Return(value=ast.Tuple(elts=values) | ast.List(elts=values)):
                returned += values
            case ast.Return(value=ast.expr() as value):
                returned.append(value)
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.AnnAssign(target=target, value=ast.expr() as value)
            ):
                stored.setdefault(last_part(target), []).append(value)
            case ast.Assign(targets=targets, value=value):
                for single in taken_apart(targets):
                    stored.setdefault(last_part(single), []).append(value)
    # What a layer or torch has made of it is a tensor from there on.
    tensors = {name for name, values in stored.items() if not all(map(_is_arithmetic, values))}
    return any(
        _is_arithmetic(value) and given & names_in(value) and not tensors & names_in(value) for value in returned
    )


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether an expression calls nothing but Python's own functions."""
    return all(getattr(part.func, "id", "") in _BUILTINS for part in of_kind(node, ast.Call))


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
