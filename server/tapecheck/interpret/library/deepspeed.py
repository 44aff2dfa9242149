"""DeepSpeed: an engine around a model and its optimizer."""

from __future__ import annotations

import ast

from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import EngineState
from tapecheck.interpret.values import Args, Instance, Kwargs, Unknown, Value, argument


def initialize(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
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


def backward(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = {key: value for key, value in kwargs.items() if key in ("retain_graph", "create_graph")}
    loss = argument(args, kwargs, 0, "loss", Unknown("loss"))
    return modules.torch.autograd.backward_method(loss, [], given, node)


def step(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    machine = modules.machine
    for name in ("step", "zero_grad"):
        machine.call(machine.get_attribute(owner.attrs["optimizer"], name, node), [], {}, node)
    return None
