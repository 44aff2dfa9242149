"""Which functions are started by themselves, and how: those without a caller in the file, with unknown arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tapecheck.interpret.explore import lived
from tapecheck.interpret.explore.definitions import Definitions
from tapecheck.interpret.explore.effects import Effect
from tapecheck.interpret.explore.index import index_of
from tapecheck.interpret.library import lightning
from tapecheck.interpret.machine import Machine
from tapecheck.interpret.state import Frame
from tapecheck.interpret.values import MORE_KEYWORDS, Class, Function, Instance, Module, Signal, Unknown, Value, Wrapped
from tapecheck.source import Source
from tapecheck.source.nodes import walk

# Plain numbers: an operation on flags takes ten times as long.
_START, _REQUIRE, _CHANGE = int(Effect.START), int(Effect.REQUIRE), int(Effect.CHANGE)
_COLLECT, _STEP = int(Effect.COLLECT), int(Effect.STEP)


@dataclass(frozen=True, slots=True)
class Entry:
    """A function or method to start with unknown arguments.

    `backward` says that it can begin one, `collects` that it only collects, `idle` that it does nothing either that
    evaluation loops do.
    """

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str | None
    collects: bool = False
    idle: bool = False
    backward: bool = True


def entries_of(source: Source) -> list[Entry]:
    """Functions and methods that could be called from outside: those that reach a backward first, callers first."""
    index = index_of(source)
    relevant = []
    for body in index.defined.bodies:
        owner = body.owner.name if body.owner is not None else None
        node = body.node
        if owner is not None and node.name == "__init__":
            continue
        if node.name == "training_step":
            relevant.append(Entry(body.name, node, owner))
            continue
        effects = index.calls.closed_effects(body)
        # Where no backward begins, what requires grad only goes wrong by being changed in place.
        if effects & _START or (effects & _REQUIRE and effects & _CHANGE):
            relevant.append(Entry(body.name, node, owner, backward=bool(effects & _START)))
            continue
        own = int(body.facts.effects)
        # The loops of a forward pass are somebody else's iterations.
        if own & _COLLECT and (owner is None or own & _STEP or not index.defined.is_module(owner)):
            relevant.append(Entry(body.name, node, owner, collects=True, idle=not own & _STEP, backward=False))
        elif effects & _COLLECT and id(body) not in index.calls.called and not _of_module(index.defined, owner):
            # A command of the program: what it builds goes to what it calls.
            relevant.append(Entry(body.name, node, owner, collects=True, idle=not effects & _STEP, backward=False))
    order = {"fit": 0, "train": 0, "main": -1, "run": 0}
    relevant.sort(key=lambda entry: (entry.collects, entry.idle, order.get(entry.node.name.split("_")[0], 1)))
    return relevant


def _of_module(defined: Definitions, owner: str | None) -> bool:
    return owner is not None and defined.is_module(owner)


def begin(machine: Machine, module: Module, entry: Entry) -> None:
    """Call an entry with unknown arguments."""
    env = module.env
    function: Value
    owner: Value = None
    args: list[Value] = []
    node = entry.node
    machine.envs.append(env)
    machine.world.position.push(Frame("<module>", module))
    before = lived.lived_globals(env.vars, module.source) if module.source is not None else {}
    try:
        if entry.owner is None:
            function = env.vars.get(node.name)
        else:
            cls = env.vars.get(entry.owner)
            if not isinstance(cls, Class):
                return
            function = cls.namespace.get(node.name)
            if not (isinstance(function, Wrapped) and function.kind == "staticmethod"):
                try:
                    owner = machine.call(cls, [], {MORE_KEYWORDS: Unknown(MORE_KEYWORDS)}, node)
                except Signal:
                    # With other arguments its constructor gives it what it refused to give it with these.
                    owner = Instance(cls)
                    owner.open = True
                args.append(owner)
                if isinstance(owner, Instance) and node.name != "training_step":
                    lived.lived(owner, module.source)
                if node.name == "training_step" and isinstance(owner, Instance) and owner.cls is not None:
                    if any(base.endswith("LightningModule") for base in owner.cls.library_bases()):
                        lightning.fit(machine.torch.nn, owner)
                        return
                if isinstance(owner, Instance) and owner.module and not _trains(node):
                    # Its loops are parts of the forward pass that somebody else calls for.
                    machine.world.position.frames[-1].forward = True
        started = function
        while isinstance(function, Wrapped):
            function = function.function
        if not isinstance(function, Function):
            return
        hints = _called_models(entry.node)
        arguments = function.node.args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        for name in names[len(args) :]:
            value = Unknown.named(name)
            if name in hints:
                machine.torch.opaque_parameters(value, node)
            machine.world.assumptions.passed[id(value)] = value
            args.append(value)
        if isinstance(args[0] if args else None, Instance):
            for attribute in hints:
                if attribute.startswith("self."):
                    held = args[0].attrs.get(attribute[5:])
                    if isinstance(held, Unknown):
                        machine.torch.opaque_parameters(held, node)
        result = machine.call(_in_its_mode(started, function), args, {MORE_KEYWORDS: Unknown(MORE_KEYWORDS)}, node)
        # The caller gets the result and still has what it passed in.
        passed = tuple(value for value in args if isinstance(value, Unknown))
        computed = any(not value.data and value.leaf is None for value in passed)
        machine.escape((result, *passed), node, "the caller", more=computed)
        if isinstance(owner, Instance):
            machine.escape(tuple(lived.outlives(owner, machine.world.calls.called, node)), node, "the next call")
    finally:
        env.vars.update(before)
        machine.world.position.pop()
        machine.envs.pop()


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


def _trains(node: ast.AST) -> bool:
    """Whether a method runs training or evaluation itself: it goes backward, steps or takes numbers out."""
    return any(
        isinstance(child, ast.Attribute) and child.attr in ("backward", "step", "zero_grad", "eval", "item", "detach")
        for child in walk(node)
    )


def _called_models(node: ast.AST) -> set[str]:
    """Names that a function treats as models: it asks them for parameters, trains or evaluates them."""
    found: set[str] = set()
    for child in walk(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            if child.func.attr in ("parameters", "named_parameters", "train", "eval", "zero_grad", "state_dict"):
                found.add(ast.unparse(child.func.value))
    return found
