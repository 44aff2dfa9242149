"""Objects of torch and of the frameworks around it: what their methods do to graphs."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tapecheck.interpret.library import (
    configurations,
    deepspeed,
    equations,
    ignite,
    lightning,
    loaders,
    scalers,
    sharding,
    wrappers,
)
from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import HandleState, ParallelState, kept, state_of
from tapecheck.interpret.values import (
    Args,
    Context,
    Instance,
    Kwargs,
    Lib,
    Native,
    Unknown,
    Value,
    argument,
    concrete,
    is_module,
    known_elements,
    layer_of,
    may_carry,
    positional,
)
from tapecheck.tape import Fact

Handler = Callable[[Modules, Instance, Args, Kwargs, ast.AST], Value]


def _ignore(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _prepare(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    # What it hands back clears, steps and scales as the framework was told to.
    modules.machine.library.given_away(args, node, "prepare", told=True)
    # What its arguments say of DistributedDataParallel is not read.
    unused: Fact = "may" if owner.args else "no"
    made = [loaders.shared(wrappers.prepared(modules.torch, value, node, unused)) for value in args]
    if owner.lib == "lightning.Fabric":
        for value in made:
            wrappers.redirecting(value)
    return made[0] if len(made) == 1 else tuple(made)


def _prepare_model(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return _prepare(modules, owner, args[:1], {}, node) if args else Unknown("model")


def _unwrap(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return wrappers.unwrapped(argument(args, kwargs, 0, "model", Unknown("model")))


def _unsynced(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`accelerator.no_sync(model)`, `fabric.no_backward_sync(model, enabled=...)`."""
    model = argument(args, kwargs, 0, "model", argument(args, kwargs, 0, "module"))
    enabled = concrete(argument(args, kwargs, 1, "enabled", True))
    if isinstance(model, Instance) and state_of(model, ParallelState) is not None and enabled is True:
        return wrappers.no_sync(model)
    return no_sync()


def _accelerator_backward(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return modules.torch.autograd.backward_method(args[0], args[1:], kwargs, node)


def _shared(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return loaders.shared(_same(modules, owner, args, kwargs, node))


def _length(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return modules.machine.library.object_length(owner, node)


def _same(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return positional(args, 0, Unknown("result"))


def _context(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context.giving(None)


def _autocast(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    # What precision it means is settled where the framework is set up.
    return modules.machine.call(Lib("torch.autocast"), [], {"enabled": Unknown("enabled")}, node)


def _remove(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    handle = kept(owner, HandleState)
    if handle.entry in handle.module.hooks:
        handle.module.hooks.remove(handle.entry)
    return None


def accelerator(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`Accelerator(...)`; what it keeps are the arguments that may say how models are to be wrapped."""
    made = Instance(None, "accelerate.Accelerator")
    made.args = [kwargs[name] for name in _PLUGINS if name in kwargs]
    return made


_PLUGINS = ("kwargs_handlers", "fsdp_plugin", "deepspeed_plugin", "megatron_lm_plugin", "parallelism_config")


def _gather(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what other processes have too: of one process the tensor itself, of several a copy without graph."""
    return modules.torch.opaque_result("gather", args, kwargs, node)


# -- engines that wrap a model and its optimizer ------------------------------------------------------------------


def scaled_loss(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """apex: `with amp.scale_loss(loss, optimizer) as scaled:`."""
    loss = positional(args, 0, Unknown("loss"))
    made = torch.op("mul", [loss, torch.world.graph.data("scale")], {}, node) if may_carry(loss) else loss
    return Context.giving(made)


def wrapped_model(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """DistributedDataParallel, DataParallel, FSDP: the model itself, which is its own `.module` too."""
    model = argument(args, kwargs, 0, "module", Unknown("model"))
    if is_module(model):
        layer_of(model).wrapped = True
    return model


def sharded_model(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`fully_shard(model)`: the model itself, whose parameters are whole only while it runs."""
    model = argument(args, kwargs, 0, "module", Unknown("model"))
    given = [model] if is_module(model) else [each for each in known_elements(model) or () if is_module(each)]
    for each in given:
        layer_of(each).added = (sharding.CLASS,)
    # Which parameters it is to leave alone nobody works out here.
    if given and "ignored_params" not in kwargs:
        for each in given:
            torch.nn.renew_parameters(each, node)
        sharding.sharded(torch, given, args, kwargs, node)
    return model


def _nothing(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return None


def _measured(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a metric makes of a batch: it may have a graph, what the metric keeps has none."""
    values = modules.torch.tensors((*args, *kwargs.values()))
    return modules.torch.opaque(owner.lib, values, node, linked="may", keeps="may")


def _self(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return owner


def no_sync() -> Context:
    """Return a context in which gradients are only added up: graphs are as ever."""
    return Context.giving(None)


_WRAPPERS = (
    "torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.tensor.parallel.parallelize_module",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "apex.parallel.DistributedDataParallel",
    "apex.parallel.convert_syncbn_model", "fairscale.nn.FullyShardedDataParallel", "accelerate.utils.compile_regions",
)  # fmt: skip
_SHARDED = ("torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard")
_CONFIGURED = (
    "tyro.cli", "simple_parsing.parse", "simple_parsing.helpers.parse", "draccus.parse", "pyrallis.parse",
    "jsonargparse.CLI", "jsonargparse.auto_cli", "chz.entrypoint",
)  # fmt: skip
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning.pytorch")
_FABRIC = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric")

FUNCTIONS: dict[str, Callable[[Torch, Args, Kwargs, ast.AST], Value]] = {
    **dict.fromkeys(_WRAPPERS, wrapped_model),
    **dict.fromkeys(_SHARDED, sharded_model),
    "torch.distributed.fsdp.register_fsdp_forward_method": sharding.forward_method,
    wrappers.PARALLEL: wrappers.parallel, "torch.nn.parallel.distributed.DistributedDataParallel": wrappers.parallel,
    **{f"{name}.Trainer": lightning.trainer for name in _LIGHTNING},
    **{f"{name}.trainer.Trainer": lightning.trainer for name in _LIGHTNING},
    **{name: lambda torch, args, kwargs, node: Instance(None, "lightning.Fabric") for name in _FABRIC},
    "accelerate.Accelerator": accelerator,
    "deepspeed.initialize": deepspeed.initialize, "ignite.engine.Engine": ignite.engine,
    **dict.fromkeys(equations.SOLVERS, equations.solved),
    **dict.fromkeys(_CONFIGURED, configurations.parsed), "transformers.HfArgumentParser": configurations.parser,
    "apex.amp.scale_loss": scaled_loss, "apex.amp.initialize": lambda torch, args, kwargs, node: tuple(args),
}  # fmt: skip
"""Functions and classes of frameworks by their dotted paths."""

OBJECTS: dict[str, dict[str, Handler]] = {
    "torch.amp.GradScaler": {
        "scale": scalers.scale, "step": scalers.step, "update": scalers.update, "unscale_": scalers.unscale,
        "get_scale": scalers.get_scale,
        "state_dict": _ignore, "load_state_dict": _ignore, "is_enabled": _ignore,
    },
    "accelerate.Accelerator": {
        "prepare": _prepare, "backward": _accelerator_backward, "gather": _gather, "gather_for_metrics": _gather,
        "reduce": _gather, "unwrap_model": _unwrap, "accumulate": _context, "autocast": _autocast, "print": _ignore,
        "clip_grad_norm_": _ignore, "clip_grad_value_": _ignore, "wait_for_everyone": _ignore,
        "no_sync": _unsynced, "prepare_model": _prepare_model, "prepare_optimizer": _same,
        "prepare_data_loader": _shared, "prepare_scheduler": _same,
        "log": _ignore, "init_trackers": _ignore, "end_training": _ignore, "save_state": _ignore, "save": _ignore,
        "save_model": _ignore, "register_for_checkpointing": _ignore, "free_memory": _ignore, "profile": _context,
        "local_main_process_first": _context, "main_process_first": _context, "pad_across_processes": _gather,
        "join_uneven_inputs": _context, "split_between_processes": _ignore, "get_state_dict": _ignore,
    },
    "lightning.Fabric": {
        "setup": _prepare, "setup_module": _prepare_model, "setup_optimizers": _prepare, "setup_dataloaders": _prepare,
        "backward": _accelerator_backward, "clip_gradients": _ignore, "autocast": _autocast, "launch": _ignore,
        "no_backward_sync": _unsynced, "init_module": _context, "init_tensor": _context, "print": _ignore,
        "log": _ignore, "log_dict": _ignore, "all_gather": _gather, "all_reduce": _gather, "barrier": _ignore,
        "save": _ignore, "load": _ignore, "call": _ignore, "seed_everything": _ignore, "to_device": _same,
        "rank_zero_first": _context,
    },
    "lightning.Trainer": {
        "fit": lightning.fit_method, "validate": lightning.evaluate, "test": lightning.evaluate,
        "predict": _ignore, "save_checkpoint": _ignore,
    },
    "deepspeed.DeepSpeedEngine": {
        "backward": deepspeed.backward, "step": deepspeed.step, "zero_grad": _ignore, "save_checkpoint": _ignore,
        "load_checkpoint": _ignore, "is_gradient_accumulation_boundary": _ignore, "train_batch": _ignore,
        "no_sync": _context,
    },
    "ignite.engine.Engine": {
    "run": ignite.run, "add_event_handler": _ignore, "terminate": _ignore,
    "on": lambda modules, owner, a, k, n: Native("on", lambda m, given, named, at: given[0] if given else None),
    },
    "torchmetrics.Metric": {
        "update": _nothing, "reset": _nothing, "compute": _ignore, "to": _self, "cuda": _self, "cpu": _self,
        "clone": _self, "eval": _self, "train": _self, "__call__": _measured,
    },
    "transformers.HfArgumentParser": {
        "parse_args_into_dataclasses": configurations.parse, "parse_dict": configurations.parse,
        "parse_json_file": configurations.parse, "parse_yaml_file": configurations.parse,
    },
    "torch.utils.hooks.RemovableHandle": {"remove": _remove},
    "torch.utils.data.DataLoader": {"__len__": _length},
    "torch.utils.data.TensorDataset": {"__len__": _length},
    "torch.utils.data.Subset": {"__len__": _length},
    "torch.utils.data.ConcatDataset": {"__len__": _length},
}  # fmt: skip
"""What the methods of these objects do, by the class and the name."""
