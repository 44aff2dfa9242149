"""Which functions are started by themselves, and how: those without a caller in the file, with unknown arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tapecheck.interpret.explore import lived
from tapecheck.interpret.explore.definitions import Body, Definitions
from tapecheck.interpret.explore.effects import Effect, FunctionNode
from tapecheck.interpret.explore.index import Index, index_of
from tapecheck.interpret.library import lightning
from tapecheck.interpret.machine import Machine
from tapecheck.interpret.objects import syntax, unknowns
from tapecheck.interpret.state import Frame
from tapecheck.interpret.values import (
    MORE_KEYWORDS,
    Class,
    Function,
    Instance,
    Module,
    Signal,
    Unknown,
    Value,
    Wrapped,
    attrs_of,
    function_of,
    only,
    user_class,
)
from tapecheck.source import Source
from tapecheck.source.nodes import of_kind
from tapecheck.source.notes import placeless
from tapecheck.source.recording import times_named
from tapecheck.source.skipped import is_function
from tapecheck.tape import Span

# Plain numbers: an operation on flags takes ten times as long.
_START, _REQUIRE, _CHANGE = int(Effect.START), int(Effect.REQUIRE), int(Effect.CHANGE)
_COLLECT, _STEP, _EVALUATE = int(Effect.COLLECT), int(Effect.STEP), int(Effect.EVALUATE)


@dataclass(frozen=True, slots=True)
class Entry:
    """A function or method to start with unknown arguments.

    `backward` says that it can begin one, `collects` that it only collects, `idle` that it does nothing either that
    evaluation loops do, `evaluates` that nobody in its file names it and that it goes through something to take
    numbers out. `uncalled` says that nobody in its project calls it, `only_uncalled` that it is started for that alone.
    `constructs` says that nothing in its file names it but the constructor of its class: an object is made, no more.
    """

    name: str
    node: FunctionNode
    owner: str | None
    collects: bool = False
    idle: bool = False
    backward: bool = True
    evaluates: bool = False
    only_uncalled: bool = False
    uncalled: bool = False
    constructs: bool = False

    def span(self, path: str) -> Span:
        """Return where it stands in its file."""
        return Span(path, self.node.lineno, 1, self.node.end_lineno or self.node.lineno, 1)


def entries_of(source: Source) -> list[Entry]:
    """Functions and methods that could be called from outside: those that reach a backward first, callers first."""
    index = index_of(source)
    relevant: list[Entry] = []
    for body in index.defined.bodies:
        owner = body.owner.name if body.owner is not None else None
        if (owner is None or body.node.name != "__init__") and not is_function(body.node):
            found = _entries(source, index, body, owner)
            # Asked of entries alone: the whole file is looked through for each.
            relevant += (
                replace(one, constructs=owner is not None and _is_part_of_constructor(index, body)) for one in found
            )
    order = {"fit": 0, "train": 0, "main": -1, "run": 0}
    relevant.sort(key=lambda entry: (entry.collects, entry.idle, order.get(entry.node.name.split("_")[0], 1)))
    return relevant


def _entries(source: Source, index: Index, body: Body, owner: str | None) -> Iterator[Entry]:
    """Yield a function as an entry where it can lead to a backward, or collect what has graphs."""
    node = body.node
    effects = index.calls.closed_effects(body)
    if node.name == "training_step" or effects & _START:
        # A method of some name that it calls may begin one, as `train` of a model does not.
        own = int(body.facts.effects)
        yield Entry(body.name, node, owner, evaluates=not own & _START and _evaluates(index, body, own))
    # Where no backward begins, what requires grad only goes wrong by being changed in place while autograd records.
    elif effects & _REQUIRE and effects & _CHANGE:
        if not (id(body) in index.calls.called and _only_unrecorded(source, node.name)):
            yield Entry(body.name, node, owner, backward=False)
    else:
        collecting, evaluates = _collecting(index, body, effects), _evaluates(index, body, effects)
        if collecting or evaluates:
            yield Entry(
                body.name, node, owner, collects=True, idle=not collecting & _STEP, backward=False,
                evaluates=evaluates, only_uncalled=not collecting,
            )  # fmt: skip


def _collecting(index: Index, body: Body, effects: int) -> int:
    """Return the effects of a function that may collect what has graphs: its own, or, where it is a command of the
    program, whose results go to what it calls, all of them. None where it collects nothing.
    """
    own, owner = int(body.facts.effects), body.owner.name if body.owner is not None else None
    # The loops of a forward pass are somebody else's iterations.
    if own & _COLLECT and (own & _STEP or not _of_module(index.defined, owner)):
        return own
    is_command = id(body) not in index.calls.called and not _of_module(index.defined, owner)
    return effects if is_command and effects & _COLLECT else 0


def _evaluates(index: Index, body: Body, effects: int) -> bool:
    """Return whether a function goes through data to take numbers out, and nothing else in its file names it."""
    if not effects & _EVALUATE or _of_module(index.defined, body.owner.name if body.owner is not None else None):
        return False
    name = body.node.name
    named = (facts.names | facts.attributes | facts.own for facts in index.defined.parts() if facts is not body.facts)
    return not any(name in names for names in named)


def _is_part_of_constructor(index: Index, body: Body) -> bool:
    """Return whether the constructor of its class, and nothing else in the file, names a method."""
    name = body.node.name
    parts = [facts for facts in index.defined.parts() if facts is not body.facts]
    naming = [facts for facts in parts if any(name in names for names in (facts.names, facts.attributes, facts.own))]
    constructors = [
        other.facts for other in index.defined.bodies if other.owner is body.owner and other.node.name == "__init__"
    ]
    return bool(naming) and all(any(facts is own for own in constructors) for facts in naming)


def _only_unrecorded(source: Source, name: str) -> bool:
    """Return whether a file names a function only to call it where recording is off: its callers are entries, too."""
    named, called, unrecorded = source.notes.of(source.tree, times_named)
    return named[name] == called[name] == unrecorded[name]


def _of_module(defined: Definitions, owner: str | None) -> bool:
    return owner is not None and defined.is_module(owner)


def begin(machine: Machine, module: Module, entry: Entry) -> None:
    """Call an entry with unknown arguments."""
    env = module.env
    machine.envs.append(env)
    machine.world.position.push(Frame("<module>", module))
    before = lived.lived_globals(env.vars, module.source) if module.source is not None else {}
    if id(entry.node) in module.handed_on:
        machine.world.writer.tape.uncalled = False
    try:
        if entry.owner is None:
            _start(machine, entry.node, env.vars.get(entry.node.name))
        else:
            cls = env.vars.get(entry.owner)
            if isinstance(cls, Class):
                _start_method(machine, module, entry, cls)
    finally:
        env.vars.update(before)
        machine.world.position.pop()
        machine.envs.pop()


def _start_method(machine: Machine, module: Module, entry: Entry, cls: Class) -> None:
    """Call a method of a new object; a `training_step` of Lightning as its Trainer does."""
    node = entry.node
    if id(cls.node) in module.handed_on or not all(map(_calls_nothing, cls.library_bases())):
        # A framework calls the methods of its classes, a hook of validation without recording.
        machine.world.writer.tape.uncalled = False
    function = cls.namespace.get(node.name)
    if isinstance(function, Wrapped) and function.kind == "staticmethod":
        if node.name in _OF_FUNCTION and not _FUNCTION_BASES.isdisjoint(cls.library_bases()):
            # Autograd calls it with recording switched off.
            return _start(machine, node, Wrapped("no_grad", function))
        return _start(machine, node, function)
    owner = _made(machine, cls, node)
    if entry.constructs:
        # It has run by now, and nobody is seen to call it once more.
        return _keep(machine, [owner], node)
    if isinstance(owner, Instance):
        if node.name != "training_step":
            lived.lived(owner, module.source)
        elif _of_lightning(owner):
            return lightning.fit(machine.torch.nn, owner)
        _set_up(machine, owner, cls, node)
        if owner.module and not any(part.attr in _TRAINING for part in of_kind(node, ast.Attribute)):
            # Its loops are parts of the forward pass that somebody else calls for.
            machine.world.position.frames[-1].forward = True
    return _start(machine, node, function, owner)


def _set_up(machine: Machine, owner: Instance, cls: Class, node: FunctionNode) -> None:
    """Do what unittest does before it calls a method of a test case."""
    if node.name in (*_SETTING_UP, "tearDown") or _TEST_CASES.isdisjoint(cls.library_bases()):
        return
    for name in _SETTING_UP:
        home = cls.home_of(name)
        if home is not None and (function := function_of(home.namespace[name])) is not None:
            machine.call(function, [cls if name == "setUpClass" else owner], {}, node)


def _calls_nothing(base: str) -> bool:
    return base.startswith(_CALLING_NOTHING)


def _made(machine: Machine, cls: Class, node: FunctionNode) -> Value:
    """Return an object of a class, made with unknown arguments."""
    try:
        return machine.call(cls, [], {**_given(cls), MORE_KEYWORDS: Unknown(MORE_KEYWORDS)}, node)
    except Signal:
        # With other arguments its constructor gives it what it refused to give it with these.
        owner = Instance(cls)
        owner.open = True
        return owner


def _given(cls: Class) -> dict[str, Value]:
    """Return what a constructor is given in the place of defaults of None with which it raises."""
    home = cls.home_of("__init__")
    function = function_of(home.namespace["__init__"]) if home is not None else None
    if function is None:
        return {}
    needed = function.module.notes.of(function.node, syntax.needs_more_than_none)
    return {name: Unknown.named(name) for name in needed}


def _of_lightning(owner: Instance) -> bool:
    return owner.cls is not None and any(base.endswith("LightningModule") for base in owner.cls.library_bases())


def _start(machine: Machine, node: FunctionNode, started: Value, *owners: Value) -> None:
    """Call a function, with the object that it is a method of, and hand its result to the caller."""
    function = function_of(started)
    if function is None:
        return
    args = _arguments(machine, node, function, owners)
    machine.world.graph.unsettle()
    result = machine.call(_in_its_mode(started, function), args, {MORE_KEYWORDS: Unknown(MORE_KEYWORDS)}, node)
    # The caller gets the result and still has what it passed in.
    passed = only(args, Unknown)
    computed = any(not value.trust.data and value.kept.leaf is None for value in passed)
    machine.escape((result, *passed), node, "the caller", more=computed)
    _keep(machine, owners, node)


def _keep(machine: Machine, owners: Sequence[Value], node: FunctionNode) -> None:
    """Hand on what objects keep."""
    for owner in only(owners, Instance):
        # What an object keeps without a graph is its own; as a number it is another thing for whoever reads it.
        kept = tuple(lived.outlives(owner, machine.world.calls.called, node))
        machine.escape(kept, node, "the next call", numbers=True)


def _arguments(machine: Machine, node: FunctionNode, function: Function, owners: tuple[Value, ...]) -> list[Value]:
    """Return unknown arguments after those that are given: what the function treats as a model may have parameters."""
    args: list[Value] = [*owners]
    hints = function.module.notes.of(node, _called_models)
    arguments = function.node.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    defaults = dict(zip(names[::-1], function.defaults[::-1]))
    for name in names[len(args) :]:
        value = Unknown.named(name)
        if isinstance(default := defaults.get(name), (bool, str)):
            # Callers seldom choose another mode; what only that shows is possible.
            unknowns.usually(value, default)
        if name in hints:
            _take_for_model(machine, value, hints[name], node)
        machine.world.assumptions.passed[id(value)] = value
        args.append(value)
    owner = args[0] if args else None
    own = attrs_of(owner)
    for held, shown in _held(own, hints):
        _take_for_model(machine, held, shown, node)
    if owners and (cls := user_class(owner)) is not None:
        # What its constructor was given and one method trains or evaluates is a model in the others, too.
        for held, shown in _held(own, cls.module.notes.of(cls.node, _called_models)):
            if held.part_of.within is None and held.part_of.owner is None:
                _take_for_model(machine, held, shown, node)
    return args


def _held(own: Mapping[str, Value], hints: Mapping[str, _Shown]) -> list[tuple[Unknown, _Shown]]:
    """Return the attributes of an object that are treated as models, with how."""
    named = ((own.get(hint[5:]), shown) for hint, shown in hints.items() if hint.startswith("self."))
    return [(held, shown) for held, shown in named if isinstance(held, Unknown)]


def _take_for_model(machine: Machine, value: Unknown, shown: _Shown, node: FunctionNode) -> None:
    """Take a value for a model; one of which nobody knows whether it learns need not have parameters that do."""
    if shown.asked:
        machine.torch.opaque_parameters(value, node)
    else:
        machine.torch.presumed_parameters(value, node)
    if value.kept.leaf is not None and not shown.learns:
        value.kept.leaf.graph = "may"


def _in_its_mode(started: Value, function: Function) -> Value:
    """Return a function within the grad modes that its decorators set; other wrappers want arguments of their own."""
    modes = []
    while isinstance(started, Wrapped):
        if started.kind in ("no_grad", "enable_grad", "inference_mode"):
            modes.append(started.kind)
        started = started.function
    wrapped: Value = function
    for mode in reversed(modes):
        wrapped = Wrapped(mode, wrapped)
    return wrapped


_CALLING_NOTHING = ("abc.", "builtins.", "collections.", "enum.", "torch.utils.data.", "typing.")
"""Where classes come from whose methods nobody calls without recording."""
_TEST_CASES = frozenset(("unittest.TestCase", "unittest.case.TestCase", "unittest.IsolatedAsyncioTestCase"))
_SETTING_UP = ("setUpClass", "setUp")
_FUNCTION_BASES = frozenset(("torch.autograd.Function", "torch.autograd.function.Function"))
_OF_FUNCTION = ("forward", "backward")
_TRAINING = frozenset(("backward", "step", "zero_grad", "eval", "item", "detach"))
_ASKS_FOR_PARAMETERS = frozenset(("parameters", "named_parameters", "zero_grad"))
_PERHAPS_OF_MODELS = frozenset(("train", "eval", "state_dict"))
"""Methods that a module has, and any other object may have as well."""
_LEARN = frozenset(("train", "parameters", "named_parameters"))
"""Methods that are called of what is to learn, and seldom of anything else."""


class _Shown(NamedTuple):
    """How a value is treated as a model: whether it is `asked` for parameters, or only trained or evaluated; whether it
    `learns`: beside others that do, one that is only evaluated may have been frozen by whoever handed it in.
    """

    asked: bool
    learns: bool


@placeless
def _called_models(node: ast.AST) -> dict[str, _Shown]:
    """Return what a piece of code treats as models, and how."""
    called: dict[str, set[str]] = {}
    for call in of_kind(node, ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _ASKS_FOR_PARAMETERS | _PERHAPS_OF_MODELS:
            called.setdefault(ast.unparse(call.func.value), set()).add(call.func.attr)
    # What an object calls of itself, such as its `train`, is its own.
    learn = [name for name, methods in called.items() if name != "self" and not methods.isdisjoint(_LEARN)]
    return {
        name: _Shown(not methods.isdisjoint(_ASKS_FOR_PARAMETERS), not learn or name in learn)
        for name, methods in called.items()
    }
