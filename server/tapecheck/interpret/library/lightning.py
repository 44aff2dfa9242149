"""Lightning: what its Trainer does with a module's own steps."""

from __future__ import annotations

import ast

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.objects import carry
from tapecheck.interpret.state import Frame
from tapecheck.interpret.values import (
    Args,
    Class,
    Dict,
    Env,
    Instance,
    Kwargs,
    Native,
    Unknown,
    Value,
    argument,
    function_of,
    is_object,
    known_elements,
    known_keywords,
    may_carry,
    only,
    unwrapped,
)
from tapecheck.source.nodes import of_kind
from tapecheck.tape import LoopEnd


def trainer(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Instance(None, "lightning.Trainer")
    made.attrs.update(known_keywords(kwargs))
    return made


_OF_LOADING = frozenset(("checkpoint_path", "map_location", "hparams_file", "strict", "weights_only"))
"""What `load_from_checkpoint` takes for itself."""


def class_method(cls: Class, name: str) -> Value:
    """Return a method that a class of the program has from LightningModule; None where it has none of that name."""
    if name != "load_from_checkpoint" or not any(base.endswith("LightningModule") for base in cls.library_bases()):
        return None
    return Native(name, lambda m, args, kwargs, node: _from_checkpoint(m, cls, kwargs, node))


def _from_checkpoint(machine: Engine, cls: Class, kwargs: Kwargs, node: ast.AST) -> Value:
    """`Net.load_from_checkpoint(path, ...)`: an object made of what is given, the rest of what the file has kept."""
    given = {name: value for name, value in kwargs.items() if name not in _OF_LOADING}
    init = function_of(cls.held("__init__"))
    if init is not None:
        arguments = init.node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)[1:]:
            # What was kept stands in for a default as well.
            given.setdefault(one.arg, Unknown.named(one.arg))
    return machine.call(cls, [], given, node)


def fit_method(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    model = argument(args, kwargs, 0, "model")
    if is_object(model):
        modules.machine.store_attribute(model, "trainer", owner, node)
        fit(modules, model)
    return None


def evaluate(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    model = argument(args, kwargs, 0, "model")
    if is_object(model):
        with _Steps(modules, model) as steps:
            for name in ("validation_step", "test_step"):
                steps.evaluate(name)
    return Unknown("metrics")


def fit(modules: Modules, model: Instance) -> None:
    """Run what Lightning's `Trainer.fit` does with a module: steps, their backward and the optimizers', validation.

    In automatic optimisation what `training_step` returns (or its "loss") is run backward; see the `Closure` of
    Lightning's `loops/optimization/automatic.py` for the order.
    """
    with _Steps(modules, model) as steps:
        steps.hook("on_fit_start")
        steps.hook("on_train_start")
        steps.hook("on_train_epoch_start")
        steps.train()
        steps.evaluate("validation_step")
        steps.hook("on_train_epoch_end")
        steps.hook("training_epoch_end", Unknown("outputs"))


class _Steps:
    """The steps of a LightningModule, run as the framework runs them."""

    def __init__(self, modules: Modules, model: Instance) -> None:
        assert model.cls is not None
        self.modules = modules
        self.machine = modules.machine
        self.model = model
        self.cls = model.cls
        self.node: ast.AST = model.cls.node

    def __enter__(self) -> _Steps:
        env = Env(None, self.cls.module.env)
        env.vars["self"] = self.model
        self.machine.envs.append(env)
        self.machine.world.position.push(Frame(f"{self.cls.name}.fit", self.cls.module))
        return self

    def __exit__(self, *raised: object) -> None:
        self.machine.world.position.pop()
        self.machine.envs.pop()

    def definition(self, name: str) -> ast.AST | None:
        """Return the statement that defines a method in the user's classes."""
        for cls in self.cls.mro():
            function = function_of(cls.namespace.get(name))
            if function is not None:
                return function.node
        return None

    def hook(self, name: str, *args: Value) -> Value:
        node = self.definition(name)
        if node is None:
            return None
        wanted = len(node.args.args) - 1 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else 0
        given = [*args, *(Unknown("argument") for _ in range(wanted - len(args)))][:wanted]
        return self.machine.call(self.machine.find_method(self.model, name), given, {}, node)

    def train(self) -> None:
        node = self.definition("training_step")
        # Without a layer the module's own `__init__` did not come to that of torch.
        if node is None or self.model.layer is None:
            return
        machine, world = self.machine, self.machine.world
        made = self.modules.lightning_optimizers(self.model, node)
        known = known_elements(made)
        optimizers: list[Value] = [made] if known is None else list(known)
        automatic = self.machine.get_attribute(self.model, "automatic_optimization", node)
        outside = world.position.iteration
        loop = world.enter_loop(node)
        for index in range(limits.BATCHES):
            started = carry.begin(machine, loop, index + 1)
            self.step(node, index, optimizers, machine.known_truth(automatic) is not False)
            carry.end(machine, loop, index + 1, started)
        world.loops.leave(LoopEnd(loop, limits.BATCHES, "yes"), outside)

    def step(self, node: ast.AST, index: int, optimizers: list[Value], automatic: bool) -> None:
        names = [parameter.arg for parameter in node.args.args[1:]] if isinstance(node, ast.FunctionDef) else []
        rounds = range(len(optimizers)) if "optimizer_idx" in names and optimizers else range(1)
        for place in rounds:
            batch = Unknown("batch")
            batch.take_for_data()
            given: Kwargs = {}
            for position, name in enumerate(names):
                known: dict[str, Value] = {"batch_idx": index, "optimizer_idx": place}
                by_place = batch if position == 0 else (index if position == 1 else Unknown.named(name))
                given[name] = known.get(name, by_place)
            self.hook("on_train_batch_start", batch, index)
            method = self.machine.find_method(self.model, "training_step")
            result = self.machine.call(method, [], given, node)
            if automatic:
                self.optimize(node, result, optimizers[place : place + 1])
            self.hook("on_train_batch_end", Unknown("outputs"), batch, index)

    def optimize(self, node: ast.AST, result: Value, optimizers: list[Value]) -> None:
        result = unwrapped(result)
        loss = result.items.get("loss") if isinstance(result, Dict) else result
        if not may_carry(loss):
            return
        machine = self.machine
        known = only(optimizers, Instance)
        for optimizer in known:
            machine.call(machine.get_attribute(optimizer, "zero_grad", node), [], {}, node)
        at = _last_return(node)
        if self.cls.defines("backward"):
            self.hook("backward", loss)
        else:
            self.modules.torch.autograd.backward_method(loss, [], {}, at)
        self.hook("on_after_backward")
        for optimizer in known:
            machine.call(machine.get_attribute(optimizer, "step", node), [], {}, at)

    def evaluate(self, name: str) -> None:
        """Run validation or test: under no_grad, in eval mode."""
        node = self.definition(name)
        if node is None:
            return
        stage = name.removesuffix("_step")
        with self.machine.world.modes.recording("no"):
            for begins in ("model_eval", "start", "epoch_start"):
                self.hook(f"on_{stage}_{begins}")
            batch = Unknown("batch")
            batch.take_for_data()
            self.hook(f"on_{stage}_batch_start", batch, 0)
            self.hook(name, batch, 0)
            self.hook(f"on_{stage}_batch_end", Unknown("outputs"), batch, 0)
            self.hook(f"on_{stage}_epoch_end")
            self.hook(f"{stage}_epoch_end", Unknown("outputs"))


def _last_return(node: ast.AST) -> ast.AST:
    """Return the statement whose value the framework runs backward."""
    found = [child for child in of_kind(node, ast.Return) if child.value is not None]
    return max(found, key=lambda child: child.lineno) if found else node
