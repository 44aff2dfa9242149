"""Objects of torch and of the frameworks around it: what their methods do to graphs."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.library import builtin
from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import EngineState, HandleState, ProcessState
from tapecheck.interpret.objects import carry
from tapecheck.interpret.values import (
    Args,
    Context,
    Dict,
    Env,
    Function,
    Instance,
    Kwargs,
    Lib,
    List,
    Native,
    Tensor,
    Unknown,
    Value,
    Wrapped,
)
from tapecheck.interpret.world import Frame

Handler = Callable[[Modules, Instance, Args, Kwargs, ast.AST], Value]


def _scale(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = args[0] if args else Unknown("loss")
    if isinstance(value, (Tensor, Unknown)):
        return modules.torch.op("mul", [value, owner.state.scale], {}, node)
    if isinstance(value, (List, tuple)):
        scaled = [_scale(modules, owner, [item], {}, node) for item in modules.machine.elements(value, node)]
        return tuple(scaled) if isinstance(value, tuple) else modules.machine.new_list(scaled, node)
    return value


def _scaler_step(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args:
        return modules.machine.call(modules.machine.get_attribute(args[0], "step", node), args[1:], kwargs, node)
    return None


def _ignore(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _prepare(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if len(args) == 1 else tuple(args)


def _accelerator_backward(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return modules.torch.autograd.backward_method(args[0], args[1:], kwargs, node)


def _same(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return args[0] if args else Unknown("result")


def _context(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context(lambda machine: None, lambda machine, raised: None)


def _autocast(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    # What precision it means is settled where the framework is set up.
    return modules.machine.call(Lib("torch.autocast"), [], {"enabled": Unknown("enabled")}, node)


def _remove(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    handle: HandleState = owner.state
    if handle.entry in handle.module.hooks:
        handle.module.hooks.remove(handle.entry)
    return None


def _length(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return builtin.length_of(owner)


def _gather(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """What other processes have too: of one process the tensor itself, of several a copy without graph."""
    return modules.torch.opaque_result("gather", args, kwargs, node)


# -- engines that wrap a model and its optimizer ------------------------------------------------------------------


def deepspeed_initialize(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`deepspeed.initialize(model=, optimizer=, model_parameters=, ...)`: engine, optimizer, loader, scheduler."""
    names = ("args", "model", "optimizer", "model_parameters", "training_data")
    given = {**dict(zip(names, args)), **kwargs}
    engine = Instance(None, "deepspeed.DeepSpeedEngine")
    model = given.get("model", Unknown("model"))
    optimizer = given.get("optimizer")
    if not isinstance(optimizer, Instance):
        parameters = given.get("model_parameters")
        if parameters is None:
            parameters = torch.machine.call(torch.machine.get_attribute(model, "parameters", node), [], {}, node)
        optimizer = torch.optimizers.construct("torch.optim.AdamW", [parameters], {}, node)
    engine.attrs.update({"module": model, "optimizer": optimizer})
    engine.state = EngineState(model)
    scheduler = given.get("lr_scheduler", Unknown.plain("lr"))
    return engine, optimizer, given.get("training_data", Unknown("loader")), scheduler


def _engine_backward(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = {key: value for key, value in kwargs.items() if key in ("retain_graph", "create_graph")}
    loss = args[0] if args else kwargs.get("loss", Unknown("loss"))
    return modules.torch.autograd.backward_method(loss, [], given, node)


def _engine_step(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    machine = modules.machine
    for name in ("step", "zero_grad"):
        machine.call(machine.get_attribute(owner.attrs["optimizer"], name, node), [], {}, node)
    return None


def scaled_loss(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """apex: `with amp.scale_loss(loss, optimizer) as scaled:`."""
    loss = args[0] if args else Unknown("loss")
    made = torch.op("mul", [loss, torch.world.data("scale")], {}, node) if isinstance(loss, (Tensor, Unknown)) else loss
    return Context(lambda machine: made, lambda machine, raised: None)


def wrapped_model(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """DistributedDataParallel, DataParallel, FSDP: the model itself, which is its own `.module` too."""
    model = args[0] if args else kwargs.get("module", Unknown("model"))
    if isinstance(model, Instance) and model.layer is not None:
        model.layer.wrapped = True
    return model


# -- trainers that run the program's own steps ---------------------------------------------------------------------


def trainer(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Instance(None, "lightning.Trainer")
    made.attrs.update({key: value for key, value in kwargs.items() if key != "**"})
    return made


def _fit(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    model = args[0] if args else kwargs.get("model")
    if isinstance(model, Instance) and model.cls is not None:
        modules.machine.store_attribute(model, "trainer", owner, node)
        fit(modules, model)
    return None


def _evaluate(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    model = args[0] if args else kwargs.get("model")
    if isinstance(model, Instance) and model.cls is not None:
        with _in_steps(modules, model) as steps:
            for name in ("validation_step", "test_step"):
                steps.evaluate(name)
    return Unknown("metrics")


def fit(modules: Modules, model: Instance) -> None:
    """What Lightning's `Trainer.fit` does with a module: steps, their backward and the optimizers', validation.

    In automatic optimisation what `training_step` returns (or its "loss") is run backward; see the `Closure` of
    Lightning's `loops/optimization/automatic.py` for the order.
    """
    with _in_steps(modules, model) as steps:
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
        self.machine.world.push(Frame(f"{self.cls.name}.fit", self.cls.module.path, self.cls.module.lines))
        return self

    def __exit__(self, *raised: object) -> None:
        self.machine.world.pop()
        self.machine.envs.pop()

    def definition(self, name: str) -> ast.AST | None:
        """The statement that defines a method in the user's classes."""
        for cls in self.cls.mro():
            value = cls.namespace.get(name)
            while isinstance(value, Wrapped):
                value = value.function
            if isinstance(value, Function):
                return value.node
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
        if node is None:
            return
        machine, world = self.machine, self.machine.world
        made = self.modules.lightning_optimizers(self.model, node)
        optimizers = made.items if isinstance(made, List) else (list(made) if isinstance(made, tuple) else [made])
        automatic = self.machine.get_attribute(self.model, "automatic_optimization", node)
        outside = world.iteration
        loop = world.enter_loop(node)
        for index in range(_STEPS):
            started = carry.begin(machine, loop, index + 1)
            self.step(node, index, optimizers, machine.known_truth(automatic) is not False)
            carry.end(machine, loop, index + 1, started)
        world.leave_loop(loop, outside, _STEPS, "yes")

    def step(self, node: ast.AST, index: int, optimizers: list[Value], automatic: bool) -> None:
        names = [parameter.arg for parameter in node.args.args[1:]] if isinstance(node, ast.FunctionDef) else []
        rounds = range(len(optimizers)) if "optimizer_idx" in names and optimizers else range(1)
        for place in rounds:
            batch = Unknown("batch")
            batch.data = True
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
        loss = result.items.get("loss") if isinstance(result, Dict) else result
        if not isinstance(loss, (Tensor, Unknown)):
            return
        machine = self.machine
        for optimizer in optimizers:
            if isinstance(optimizer, Instance):
                machine.call(machine.get_attribute(optimizer, "zero_grad", node), [], {}, node)
        at = _last_return(node)
        if self.cls.defines("backward"):
            self.hook("backward", loss)
        else:
            self.modules.torch.autograd.backward_method(loss, [], {}, at)
        self.hook("on_after_backward")
        for optimizer in optimizers:
            if isinstance(optimizer, Instance):
                machine.call(machine.get_attribute(optimizer, "step", node), [], {}, at)

    def evaluate(self, name: str) -> None:
        """Validation or test: under no_grad, in eval mode."""
        node = self.definition(name)
        if node is None:
            return
        world = self.machine.world
        stage = name.removesuffix("_step")
        world.grad_modes.append("no")
        depth = len(world.grad_modes)
        try:
            self.hook(f"on_{stage}_epoch_start")
            batch = Unknown("batch")
            batch.data = True
            self.hook(name, batch, 0)
            self.hook(f"on_{stage}_epoch_end")
            self.hook(f"{stage}_epoch_end", Unknown("outputs"))
        finally:
            del world.grad_modes[depth - 1 :]


_STEPS = 3
"""How often a training step is run: a first, a second and a third batch."""


def _in_steps(modules: Modules, model: Instance) -> _Steps:
    return _Steps(modules, model)


def _last_return(node: ast.AST) -> ast.AST:
    """The statement whose value the framework runs backward."""
    found = [child for child in ast.walk(node) if isinstance(child, ast.Return) and child.value is not None]
    return max(found, key=lambda child: child.lineno) if found else node


def ignite_engine(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    made = Instance(None, "ignite.engine.Engine")
    made.state = ProcessState(args[0] if args else kwargs.get("process_function"))
    return made


def _ignite_run(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`engine.run(data, max_epochs)`: the process function for every batch; its last output is kept."""
    machine, world = modules.machine, modules.world
    outside = world.iteration
    loop = world.enter_loop(node)
    for index in range(_STEPS):
        started = carry.begin(machine, loop, index + 1)
        batch = Unknown("batch")
        batch.data = True
        machine.call(owner.state.function, [owner, batch], {}, node)
        carry.end(machine, loop, index + 1, started)
    world.leave_loop(loop, outside, _STEPS, "yes")
    return Unknown("state")


def _handler_decorator(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Native("on", lambda m, given, named, at: given[0] if given else None)


def metric(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """An object of torchmetrics: what it keeps has no graph."""
    return Instance(None, "torchmetrics.Metric")


def _nothing(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return None


def _self(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return owner


def no_sync() -> Context:
    """A context in which gradients are only added up: graphs are as ever."""
    return Context(lambda machine: None, lambda machine, raised: None)


_WRAPPERS = (
    "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "apex.parallel.DistributedDataParallel",
    "apex.parallel.convert_syncbn_model", "fairscale.nn.FullyShardedDataParallel", "accelerate.utils.compile_regions",
)  # fmt: skip
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning.pytorch")
_FABRIC = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")

FUNCTIONS: dict[str, Callable[[Torch, Args, Kwargs, ast.AST], Value]] = {
    **dict.fromkeys(_WRAPPERS, wrapped_model),
    **{f"{name}.Trainer": trainer for name in _LIGHTNING},
    **{f"{name}.trainer.Trainer": trainer for name in _LIGHTNING},
    **{name: lambda torch, args, kwargs, node: Instance(None, "lightning.Fabric") for name in _FABRIC},
    "deepspeed.initialize": deepspeed_initialize, "ignite.engine.Engine": ignite_engine,
    "apex.amp.scale_loss": scaled_loss, "apex.amp.initialize": lambda torch, args, kwargs, node: tuple(args),
}  # fmt: skip
"""Functions and classes of frameworks by their dotted paths."""

OBJECTS: dict[str, dict[str, Handler]] = {
    "torch.amp.GradScaler": {
        "scale": _scale, "step": _scaler_step, "update": _ignore, "unscale_": _ignore, "get_scale": _ignore,
        "state_dict": _ignore, "load_state_dict": _ignore, "is_enabled": _ignore,
    },
    "accelerate.Accelerator": {
        "prepare": _prepare, "backward": _accelerator_backward, "gather": _gather, "gather_for_metrics": _gather,
        "reduce": _gather, "unwrap_model": _same, "accumulate": _context, "autocast": _autocast, "print": _ignore,
        "clip_grad_norm_": _ignore, "clip_grad_value_": _ignore, "wait_for_everyone": _ignore, "no_sync": _context,
        "prepare_model": _same, "prepare_optimizer": _same, "prepare_data_loader": _same, "prepare_scheduler": _same,
        "log": _ignore, "init_trackers": _ignore, "end_training": _ignore, "save_state": _ignore, "save": _ignore,
        "save_model": _ignore, "register_for_checkpointing": _ignore, "free_memory": _ignore, "profile": _context,
        "local_main_process_first": _context, "main_process_first": _context, "pad_across_processes": _gather,
        "join_uneven_inputs": _context, "split_between_processes": _ignore, "get_state_dict": _ignore,
    },
    "lightning.Fabric": {
        "setup": _prepare, "setup_module": _same, "setup_optimizers": _prepare, "setup_dataloaders": _prepare,
        "backward": _accelerator_backward, "clip_gradients": _ignore, "autocast": _autocast, "launch": _ignore,
        "no_backward_sync": _context, "init_module": _context, "init_tensor": _context, "print": _ignore,
        "log": _ignore, "log_dict": _ignore, "all_gather": _gather, "all_reduce": _gather, "barrier": _ignore,
        "save": _ignore, "load": _ignore, "call": _ignore, "seed_everything": _ignore, "to_device": _same,
        "rank_zero_first": _context,
    },
    "lightning.Trainer": {
        "fit": _fit, "validate": _evaluate, "test": _evaluate, "predict": _ignore, "save_checkpoint": _ignore,
    },
    "deepspeed.DeepSpeedEngine": {
        "backward": _engine_backward, "step": _engine_step, "zero_grad": _ignore, "save_checkpoint": _ignore,
        "load_checkpoint": _ignore, "is_gradient_accumulation_boundary": _ignore, "train_batch": _ignore,
        "no_sync": _context,
    },
    "ignite.engine.Engine": {
        "run": _ignite_run, "on": _handler_decorator, "add_event_handler": _ignore, "terminate": _ignore,
    },
    "torchmetrics.Metric": {
        "update": _nothing, "reset": _nothing, "compute": _ignore, "to": _self, "cuda": _self, "cpu": _self,
        "clone": _self, "eval": _self, "train": _self,
    },
    "torch.utils.hooks.RemovableHandle": {"remove": _remove},
    "torch.utils.data.DataLoader": {"__len__": _length},
    "torch.utils.data.TensorDataset": {"__len__": _length},
}  # fmt: skip
"""What the methods of these objects do, by the class and the name."""
