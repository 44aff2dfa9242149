"""Modules: their parameters, buffers and hooks, and what calling them does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tapecheck.interpret import limits
from tapecheck.interpret.library import (
    averaging,
    frameworks,
    loaders,
    opaque,
    packed,
    parametrized,
    precisions,
    pretrained,
    scalers,
    sharding,
    submodules,
    visible,
    wrappers,
)
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.states import (
    CompiledState,
    EngineState,
    HandleState,
    OptimizerState,
    ScalerState,
    ShardState,
    state_of,
)
from tapecheck.interpret.objects.namespaces import REGISTERED, Registered, is_registered_parameter
from tapecheck.interpret.values import (
    INERT,
    MORE_KEYWORDS,
    Args,
    Bound,
    Dict,
    Function,
    Home,
    Instance,
    Kwargs,
    Layer,
    Lib,
    List,
    Mark,
    Native,
    Stream,
    Tensor,
    Unknown,
    Value,
    argument,
    behaviour,
    bound_function,
    concrete,
    is_buffer,
    is_module,
    is_parameter,
    is_unseen,
    known_elements,
    known_int,
    known_keywords,
    known_text,
    layer_of,
    listed,
    may_carry,
    only,
    positional,
)
from tapecheck.interpret.values.vocabulary import ANY_LAYER
from tapecheck.tape import Fact, ModeSet, Named
from tapecheck.torchfacts import ModuleFact, OpFact, classes, load

_KEEP = frozenset(
    ["to", "cuda", "cpu", "float", "double", "half", "bfloat16", "type", "to_empty", "xpu", "share_memory"]
)
_FLATTENED: Kwargs = {"start_dim": 1, "end_dim": -1}
"""What nn.Flatten says of dimensions where its constructor is not told."""
_ACCESS = {"__getattribute__": "getattr", "__setattr__": "setattr", "__delattr__": "delattr"}
"""The methods of every object that read, set and delete an attribute, with the functions that do the same."""
BARE = ("torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module")
"""What a program derives its modules from, or stores others in: `parts = nn.Module()`."""


class Modules:
    """torch.nn for one machine."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.machine = torch.machine
        self.world = torch.world
        self.facts = load()
        self.asked: dict[int, tuple[Instance, list[Tensor]]] = {}
        """The modules whose parameters were asked for, each with those that it had then."""
        self.shards: dict[int, ShardState] = {}
        self.made: list[Instance] = []
        """The modules of the user's classes."""
        self.loose_hooks: list[Value] = []
        """Forward hooks of parts of models that nobody can look into: they see what these compute."""
        self._running_loose = False
        self.compiling: CompiledState | None = None
        """What a container of torch.nn keeps that was compiled in place, while its forward runs."""
        self.region: CompiledState | None = None
        """What is kept of the compiled code that runs."""
        self.named_by: dict[int, Instance] = {}
        """Of each leaf the module that its name leads from."""
        self.loose: list[Tensor] = []
        """The parameters that the program made itself, one by one."""

    # -- what is a module -------------------------------------------------------------------------------------

    def is_class(self, path: str) -> bool:
        """Whether a dotted path is a class of torch.nn."""
        if not path.startswith("torch.nn."):
            return False
        name = path.rsplit(".", 1)[-1]
        return (
            name[:1].isupper()
            and not path.startswith(("torch.nn.init", "torch.nn.functional", "torch.nn.utils."))
            and name not in ("Parameter", "Module", "DataParallel")
        )

    def is_plain_base(self, path: str) -> bool:
        """Whether an object has nothing of a base before a constructor has run, but what its `__dict__` says."""
        return path == "builtins.object" or path in BARE or self.is_class(path)

    def is_module_base(self, path: str) -> bool:
        name = path.rsplit(".", 1)[-1]
        if name.endswith(pretrained.NO_MODELS):
            return False
        if path in BARE:
            return True
        return (
            self.is_class(path)
            or name in ("LightningModule", "PreTrainedModel")
            or (
                not path.startswith(("torch.", "builtins.", "typing."))
                and (name.endswith("Module") or path.startswith(pretrained.LIBRARIES))
            )
        )

    # -- construction -----------------------------------------------------------------------------------------

    def construct(self, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Instance:
        owner = Instance(None, path, module=True)
        owner.attrs["training"] = True
        self.construct_into(owner, path, args, kwargs, node)
        return owner

    def construct_into(self, owner: Instance, path: str, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
        """Run the constructor of a class of torch.nn on an object."""
        name = path.rsplit(".", 1)[-1]
        owner.lib = path
        layer = layer_of(owner)
        if name in submodules.CONTAINERS:
            submodules.fill(self, owner, name, args, kwargs, node)
            return
        fact = self.facts.module(name)
        self._note_given(layer, fact, args, kwargs)
        for key, value in layer.given.items():
            if not isinstance(value, (Tensor, Instance, List, Dict, Unknown)) and key not in ("device", "dtype"):
                owner.attrs.setdefault(key, value)
        names = fact.parameters if fact is not None else _guessed_parameters(name, args)
        flags = {**_defaults(fact), **{key: concrete(value) for key, value in layer.given.items()}}
        for parameter in _layered(names, flags):
            if _has_parameter(parameter, flags):
                owner.attrs[parameter] = self._parameter(name, parameter, layer.given, node)
        if fact is not None and flags.get("track_running_stats") is not False:
            for buffer in fact.buffers:
                owner.attrs[buffer] = made = self.world.graph.data(buffer)
                made.note(Mark.BUFFER)
                layer.buffers.add(buffer)
        layer.attributes = len(owner.attrs)

    def _note_given(self, layer: Layer, fact: ModuleFact | None, args: Args, kwargs: Kwargs) -> None:
        """Note what a layer is made with, and which of its facts hold for that."""
        layer.given = dict(kwargs)
        if fact is not None:
            kind = self.torch.kind
            layer.given |= {key: value for key, value in zip(fact.params, args) if key not in kwargs}
            layer.kinds = [kind(value) for value in args], {k: kind(v) for k, v in known_keywords(kwargs).items()}
            layer.fact = fact.for_call(*layer.kinds)

    def _parameter(self, layer: str, name: str, given: Kwargs, node: ast.AST) -> Tensor:
        """Return a parameter of a new layer of torch's."""
        tensor = self.world.graph.data(name)
        tensor.parameter = True
        made_with = precisions.given(self.world, given)
        if made_with != "float":
            tensor.note(Mark.PRECISION, made_with)
        if "LazyModuleMixin" in classes.bases(f"torch.nn.{layer}"):
            tensor.note(Mark.LAZY)
        tensor.rank = classes.rank(layer, name)
        self.world.graph.make_leaf(tensor, node, f"{layer}.{name}", parameter=True)
        return tensor

    def children_names(self, owner: Instance) -> list[str]:
        return submodules.names(owner)

    def replaced_parameters(self, model: Unknown, depth: int = limits.REPLACED_DEPTH) -> list[Tensor]:
        """Return the parameters of modules that the program put into an opaque model (`model.fc = ...`)."""
        found: list[Tensor] = []
        for value in (model.asked.attrs or {}).values() if depth else ():
            if is_module(value):
                found.extend(tensor for _, tensor in self.named_parameters(value))
            elif isinstance(value, Unknown) and value.asked.attrs:
                found.extend(self.replaced_parameters(value, depth - 1))
        return found

    # -- walking ----------------------------------------------------------------------------------------------

    def named_parameters(
        self, owner: Value, prefix: str = "", seen: set[int] | None = None
    ) -> list[tuple[str, Tensor]]:
        """Return the parameters of a module and its children, each once."""
        found: list[tuple[str, Tensor]] = []
        _gather_parameters(owner, prefix, set() if seen is None else seen, found)
        return found

    def renew_parameters(self, owner: Instance, node: ast.AST) -> None:
        """Put new parameters in the places of those that are not sharded yet, as `fully_shard` does."""
        made: dict[int, Tensor] = {}
        for _, module in self.modules(owner):
            for name, value in module.attrs.items():
                if not isinstance(value, Tensor) or not is_registered_parameter(layer_of(module), name, value):
                    continue
                if value.storage.id in self.world.modes.wrapping.sharded:
                    continue
                if id(value) not in made:
                    made[id(value)] = self._renewed(value, node)
                module.attrs[name] = made[id(value)]

    def _renewed(self, old: Tensor, node: ast.AST) -> Tensor:
        new = self.world.graph.data(old.name, old.cuts, old.dtype)
        new.length, new.rank, new.extra, new.parameter = old.length, old.rank, old.extra, True
        if old.node is not None:
            self.world.graph.make_leaf(new, node, parameter=True)
        return new

    def name_parameters(self, owner: Instance, name: str, within: Instance | None = None) -> None:
        """Name the parameters of a module by the paths that lead to them, from what it was stored under first.

        A part of a module that has been named has its name from there, whichever loop or variable it goes through, and
        so has what was stored `within` one that has its name already, as a new head is.
        """
        if within is not None and within.layer is not None and within.layer.home is not None:
            name = f"{within.layer.home.path}.{name}"
        layer = layer_of(owner)
        if layer.named or (layer.home is not None and layer.home.top is not owner):
            return
        layer.named = True
        for path, module in self.modules(owner, name):
            layer_of(module).home = Home(owner, path)
        for path, tensor in self.named_parameters(owner, f"{name}."):
            tensor.name = path
            if tensor.node is not None:
                self.named_by[tensor.node] = owner
                self.world.writer.emit(Named(tensor.node, path.replace("`", "'")))

    def modules(self, owner: Instance, prefix: str = "") -> list[tuple[str, Instance]]:
        """Return a module with all that are in it, each once, by the paths that lead to them."""
        found: list[tuple[str, Instance]] = []
        _gather_modules(owner, prefix, set(), found)
        return found

    def open_ended(self, owner: Instance) -> bool:
        """Whether a module may have parameters that nobody knows."""
        return any(
            layer_of(module).more
            or (module.cls is not None and module.cls.opaque)
            or any(map(_is_hidden, module.attrs.values()))
            for _, module in self.modules(owner)
        ) or not (self.named_parameters(owner) or all(map(_holds_no_more, self.modules(owner))))

    # -- attributes and methods -------------------------------------------------------------------------------

    def is_method(self, name: str) -> bool:
        """Return whether every module has a method of that name, which computes nothing."""
        return name in _KEEP or (name not in ("forward", "__call__") and hasattr(self, f"_module_{name}"))

    def attribute(self, owner: Instance, name: str, node: ast.AST) -> Value:
        """Return what the library side of an object answers for a name; None where it has none."""
        if owner.layer is not None:
            return self._attribute_of_module(owner, owner.layer, name, node)
        if owner.lib.startswith("torch.optim.") or state_of(owner, OptimizerState) is not None:
            return self.torch.optimizers.attribute(owner, name)
        if state_of(owner, ScalerState) is not None:
            scalers.asked(self.torch.world, name, node)
        table = frameworks.OBJECTS.get(owner.lib)
        if table is not None and name in table:
            handler = table[name]
            return Native(name, lambda m, args, kwargs, at: handler(self, owner, args, kwargs, at), receiver=owner)
        if (engine := state_of(owner, EngineState)) is not None:
            return self.machine.get_attribute(engine.model, name, node)
        if owner.lib.startswith("torch.distributions.") and owner.state is not None:
            return self.torch.distributions.attribute(owner, name)
        if owner.is_context and name == "saved_tensors":
            return Unknown("saved_tensors")
        return self._attribute_of_any(owner, name) if owner.cls is not None else None

    def _attribute_of_any(self, owner: Instance, name: str) -> Value:
        """Return a method that every object of a class of the program has from `object`."""
        if name == "__init__":
            return Native(name, lambda m, args, kwargs, at: self._module___init__(owner, args, kwargs, at))
        if name in ("__init_subclass__", "__del__"):
            return Native(name, lambda m, args, kwargs, at: None)
        return self._access(owner, name)

    def _access(self, owner: Instance, name: str) -> Value:
        """Return a method of `object` that reads, sets or deletes an attribute by its name; None for others."""
        function = self.machine.library.builtins.get(_ACCESS.get(name, ""))
        if function is None:
            return None
        return Native(name, lambda m, args, kwargs, at: m.call(function, [owner, *args], kwargs, at), receiver=owner)

    def _attribute_of_module(self, owner: Instance, layer: Layer, name: str, node: ast.AST) -> Value:
        if name in layer.parametrized:
            return parametrized.weight(self.torch, owner, name, node)
        if (pruned := parametrized.masked(self.torch, owner, name, node)) is not None:
            return pruned
        method = getattr(self, f"_module_{name}", None)
        if method is not None:
            return Native(name, lambda m, args, kwargs, at: method(owner, args, kwargs, at), receiver=owner)
        if (access := self._access(owner, name)) is not None:
            return access
        if name in _KEEP:
            return Native(name, lambda m, args, kwargs, at: self._moved(owner, name, args, kwargs, at))
        if name in REGISTERED:
            return Dict(Registered(owner, name), layer.more, slots=owner.slots)
        if name == "module" and layer.wrapped:
            return owner
        if name == "no_sync" and layer.wrapped:
            return Native(name, lambda m, args, kwargs, at: frameworks.no_sync())
        if name == "manual_backward":
            backward = self.torch.autograd.backward_method
            return Native(name, lambda m, args, kwargs, at: backward(args[0], args[1:], kwargs, at))
        if name in ("optimizers", "lr_schedulers"):
            return Native(name, lambda m, args, kwargs, at: self.lightning_optimizers(owner, at))
        if name in ("log", "log_dict", "save_hyperparameters", "print", "toggle_optimizer", "untoggle_optimizer"):
            return Native(name, lambda m, args, kwargs, at: None)
        if wrappers.wrapped(owner) is not None:
            return wrappers.attribute(self, owner, name, node)
        return sharding.method(self, owner, name) or submodules.method(self, owner, name)

    def _module___init__(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if owner.cls is not None:
            kwargs.pop(MORE_KEYWORDS, None)
            self.machine.library.construct_base(owner, owner.cls.library_bases(), args, kwargs, node)
        else:
            self.construct_into(owner, owner.lib, args, kwargs, node)
        return None

    def _module_parameters(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([tensor for _, tensor in self._asked_for(owner)], self.open_ended(owner))

    def _module_named_parameters(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List(list(self._asked_for(owner)), self.open_ended(owner))

    def _asked_for(self, owner: Instance) -> list[tuple[str, Tensor]]:
        """Return the parameters of a module, by name, for a program that asks for them."""
        named = list(self.named_parameters(owner))
        self.asked[id(owner)] = owner, [tensor for _, tensor in named]
        return named

    def _module_buffers(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([v for _, module in self.modules(owner) for v in module.attrs.values() if is_buffer(v)])

    def _module_named_buffers(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([(k, v) for _, module in self.modules(owner) for k, v in module.attrs.items() if is_buffer(v)])

    def _module_children(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([value for _, value in _children(owner)], layer_of(owner).more)

    def _module_named_children(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([*_children(owner)])

    def _module_modules(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([module for _, module in self.modules(owner)], self.open_ended(owner))

    def _module_named_modules(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return List([*self.modules(owner)], self.open_ended(owner))

    def _module_state_dict(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        sharding.given_away(self.torch, self._leaves_of(owner))
        result = Dict({}, born=self.world.position.clock)
        themselves = concrete(kwargs.get("keep_vars", args[2] if len(args) > 2 else False)) is True
        for name, tensor in self.named_parameters(owner):
            if themselves:
                result.items[name] = tensor
                continue
            shared = self.world.graph.data(name)
            shared.storage = tensor.storage
            result.items[name] = shared
        result.more = self.open_ended(owner)
        return result

    def _module_load_state_dict(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        self.world.graph.unsettle()
        sharding.given_away(self.torch, self._leaves_of(owner))
        if self._assigns(argument(args, kwargs, 2, "assign", False), node):
            self.renew_parameters(owner, node)
            for _, tensor in self.named_parameters(owner):
                _note_moved(tensor, Unknown.plain("dtype"))
            return Unknown("keys")
        for _, tensor in self.named_parameters(owner):
            self.world.graph.change(tensor, node, "load_state_dict", grad_mode="no")
        return Unknown("keys")

    def _assigns(self, assign: Value, node: ast.AST) -> bool:
        """Whether `load_state_dict` puts the tensors that it is given in the places of the parameters."""
        assign = concrete(assign)
        if not is_unseen(assign):
            return assign is True
        visible.option(self.world, assign, "assign", node)
        return self.world.choices.choose(node, False, "assign")

    def _leaves_of(self, owner: Instance) -> list[int]:
        return [tensor.node for _, tensor in self.named_parameters(owner) if tensor.node is not None]

    def _module_train(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        mode = concrete(argument(args, kwargs, 0, "mode", True))
        for _, module in self.modules(owner):
            module.attrs["training"] = mode
        if isinstance(mode, bool):
            parameters = [tensor for _, tensor in self.named_parameters(owner)]
            leaves = [one.node for one in parameters if one.is_leaf and one.node is not None]
            self.world.writer.emit(ModeSet(self.world.position.site(node), mode, tuple(leaves)))
        return owner

    def _module_eval(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._module_train(owner, [False], {}, node)

    def _module_zero_grad(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        wanted = concrete(argument(args, kwargs, 0, "set_to_none", True))
        for _, tensor in self.named_parameters(owner):
            self.torch.autograd.clear(tensor, node, "no" if wanted is False else "yes")
        return None

    def _module_requires_grad_(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        for _, tensor in self.named_parameters(owner):
            self.torch.requires_grad(tensor, argument(args, kwargs, 0, "requires_grad", True), node)
        return owner

    def _moved(self, owner: Instance, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Instance:
        """Move a module: its parameters stay the leaves that they are, a buffer that is one becomes what `to` gives."""
        precision = precisions.wanted(name, args, kwargs)
        if precision is None and any(map(is_unseen, map(concrete, args))):
            # It may be the name of a device or of a type.
            precision = Unknown.plain("dtype")
        for _, module in self.modules(owner) if name != "share_memory" else ():
            buffers = layer_of(module).buffers
            for key, held in list(module.attrs.items()):
                if not isinstance(held, Tensor):
                    continue
                if key not in buffers:
                    _note_moved(held, precision)
                elif held.is_leaf and held.graph != "no" and name == "to_empty":
                    module.attrs[key] = self.world.graph.data(held.name)
                elif held.is_leaf and held.graph != "no":
                    move = self.machine.get_attribute(held, name, node)
                    module.attrs[key] = self.machine.call(move, args, kwargs, node)
        return owner

    def _module_register_buffer(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = known_text(argument(args, kwargs, 0, "name"))
        if name is not None and owner.layer is not None:
            owner.layer.buffers.add(name)
        return self._module_register_parameter(owner, args, kwargs, node)

    def _module_register_parameter(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        name = known_text(argument(args, kwargs, 0, "name"))
        value = args[1] if len(args) > 1 else kwargs.get("tensor", kwargs.get("param", kwargs.get("module")))
        if name is None:
            # Whatever it is called, the module has it.
            owner.open = True
            name = f"({len(owner.attrs)})"
        self.machine.set_attribute(owner, name, value, node)
        return None

    _module_add_module = _module_register_parameter
    _module_register_module = _module_register_parameter

    def _module_register_forward_hook(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._hook(owner, "forward", args)

    def _module_register_forward_pre_hook(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._hook(owner, "before", args)

    def _module_register_full_backward_hook(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._hook(owner, "backward", args)

    _module_register_backward_hook = _module_register_full_backward_hook

    def _hook(self, owner: Instance, kind: str, args: Args) -> Value:
        entry = (kind, positional(args, 0))
        owner.hooks.append(entry)
        handle = Instance(None, "torch.utils.hooks.RemovableHandle")
        handle.state = HandleState(owner, entry)
        return handle

    def _module_apply(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        for child in list(owner.attrs.values()):
            if is_module(child):
                method = self.machine.get_attribute(child, "apply", node)
                self.machine.call(method, args, kwargs, node)
        self.machine.call(argument(args, kwargs, 0, "fn"), [owner], {}, node)
        return owner

    def _module_forward(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if wrappers.wrapped(owner) is not None:
            return wrappers.call(self, owner, args, kwargs, node)
        return self._inherited_forward(owner, args, kwargs, node)

    def _module_compile(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        wrappers.watch_layouts(self.world)
        return wrappers.compiled_in_place(owner, kwargs)

    def _module___call__(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self.call(owner, args, kwargs, node)

    def _module_update_parameters(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if owner.lib == averaging.AVERAGED:
            averaging.update_parameters(self, owner, node)
        return None

    def _module_get_submodule(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._part_named(owner, "get_submodule", is_module, args, kwargs, node)

    def _module_get_parameter(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._part_named(owner, "get_parameter", is_parameter, args, kwargs, node)

    def _module_get_buffer(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return self._part_named(owner, "get_buffer", is_buffer, args, kwargs, node)

    def _module___getattr__(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Return what a module has been given under a name, whatever a class of the program looks for besides."""
        machine = self.machine
        name = known_text(positional(args, 0))
        if name is None or owner.has(name):
            return machine.call(machine.library.builtins["getattr"], [owner, *args], {}, node)
        if machine.library.lacks(owner, name):
            machine.wrong("AttributeError", node)
        return Unknown.named(name)

    def _part_named(
        self, owner: Instance, method: str, fits: Callable[[Value], bool], args: Args, kwargs: Kwargs, node: ast.AST
    ) -> Value:
        """Return a part of a module by its dotted name, an unknown one where nobody knows the name, or the part.

        torch raises for what does not fit the method.
        """
        path = known_text(argument(args, kwargs, 0, "target"))
        if path is None:
            opaque.handed_over(self.torch, owner, method, node)
            return Unknown(method.removeprefix("get_"))
        part: Value = owner
        for name in path.split(".") if path else ():
            part = self.machine.get_attribute(part, name, node)
        if not isinstance(part, Unknown) and not fits(part):
            self.machine.wrong("AttributeError", node)
        return part

    def lightning_optimizers(self, owner: Instance, node: ast.AST) -> Value:
        layer = layer_of(owner)
        if layer.optimizers is None:
            method = self.machine.find_method(owner, "configure_optimizers")
            made = self.machine.call(method, [], {}, node) if method is not None else Unknown("optimizers")
            known = behaviour(made).known_items(self.machine, node) if known_elements(made) is not None else None
            if known is not None and len(known) == 2 and isinstance(known[0], List):
                made = known[0]
                known = known[0].items
            layer.optimizers = known[0] if known is not None and len(known) == 1 else made
            for one in only(known or (), Instance):
                # Lightning's own optimizer around it has attributes of its own.
                one.open = True
        return layer.optimizers

    def item(self, owner: Instance, index: Value, node: ast.AST) -> Value:
        return submodules.item(self, owner, index, node) if owner.module else loaders.item(self.torch, owner)

    def stream(self, owner: Instance, node: ast.AST) -> Stream | None:
        return submodules.stream(owner) if owner.module else loaders.stream(self.torch, owner, node)

    # -- forward ------------------------------------------------------------------------------------------------

    def call(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call an object: a module's forward with its hooks."""
        if (engine := state_of(owner, EngineState)) is not None:
            return self.machine.call(engine.model, args, kwargs, node)
        if not owner.module:
            known = frameworks.OBJECTS.get(owner.lib, {}).get("__call__")
            if known is not None:
                return known(self, owner, args, kwargs, node)
            return self.torch.opaque_result(owner.lib or "object", args, kwargs, node)
        for given in only(args, Lib):
            self.machine.library.gives_data(given, node)
        hooked = wrappers.runs_hooks(self, owner, node)
        args = self._before_forward(owner, args, node) if hooked else args
        shards = sharding.hooked(owner)
        compiled = wrappers.in_place(owner) or self.compiling
        forward = self.forward if compiled is None else partial(wrappers.call_in_place, self, compiled)
        if shards is None:
            result = forward(owner, args, kwargs, node)
        else:
            with sharding.running(self.torch, shards, node) as results:
                result = forward(owner, args, kwargs, node)
                results.append(result)
        return self._after_forward(owner, args, result, node) if hooked and owner.hooks else result

    def _after_forward(self, owner: Instance, args: Args, result: Value, node: ast.AST) -> Value:
        """Return the result of a module's forward as its hooks leave it, and note those that a backward runs."""
        for kind, hook in list(owner.hooks):
            if kind == "forward":
                changed = self.machine.call(hook, [owner, tuple(args), result], {}, node)
                result = changed if _is_answer(changed) else result
            elif kind == "backward":
                for tensor in self.torch.tensors(result)[:1]:
                    if tensor.node is not None:
                        self.torch.autograd.module_hooks.append((owner, tensor.node, hook))
        return result

    def _before_forward(self, owner: Instance, args: Args, node: ast.AST) -> Args:
        """Return the arguments of a module's forward as its hooks leave them."""
        for kind, hook in list(owner.hooks) if owner.hooks else ():
            if kind == "before":
                changed = self.machine.call(hook, [owner, tuple(args)], {}, node)
                args = listed(changed) if _is_answer(changed) else args
        return args

    def ran(self, model: Value, args: Args, node: ast.AST) -> None:
        """Call the hooks that parts of a model have which nobody can look into: it may have just computed them."""
        if not any(map(may_carry, args)):
            return
        if self._running_loose:
            # A hook that calls unknown code would be called for that with what it was given, and so on.
            return
        self._running_loose = True
        try:
            for hook in list(self.loose_hooks):
                made = Unknown("output")
                made.trust = made.trust._replace(returned=True)
                self.machine.call(hook, [model, tuple(args), made], {}, node)
        finally:
            self._running_loose = False

    def forward(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        if wrappers.wrapped(owner) is not None:
            return wrappers.call(self, owner, args, kwargs, node)
        method = owner.attrs.get("forward") or self.machine.find_method(owner, "forward")
        if isinstance(method, Bound) and isinstance(method.function, Function):
            return self.machine.call_function(method.function, [method.receiver, *args], kwargs, node, forward=True)
        if method is not None:
            return self.machine.call(method, args, kwargs, node)
        return self._inherited_forward(owner, args, kwargs, node)

    def has_own_forward(self, owner: Instance) -> bool:
        """Whether the forward of a module is code of the program."""
        method = owner.attrs.get("forward") or self.machine.find_method(owner, "forward")
        return bound_function(method) is not None

    def _inherited_forward(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Run the forward that a module's class has from the library: `super().forward(x)` in one of the user's."""
        kwargs.pop(MORE_KEYWORDS, None)
        if pretrained.BASE in owner.attrs:
            return self.machine.call(owner.attrs[pretrained.BASE], args, kwargs, node)
        fact = layer_of(owner).fact
        if fact is not None:
            return self._run_fact(owner, fact, args, kwargs, node)
        name = owner.lib.rsplit(".", 1)[-1]
        if name == "Sequential":
            value: Value = positional(args, 0, Unknown("input"))
            for key in self.children_names(owner):
                value = self.machine.call(owner.attrs[key], [value], {}, node)
            if layer_of(owner).more:
                self.ran(owner, [value], node)
                return self.torch.opaque_result("Sequential", [value], {}, node)
            return value
        if owner.lib == averaging.AVERAGED:
            return self.machine.call(owner.attrs["module"], args, kwargs, node)
        if self.machine.find_method(owner, "forward") is not None:
            # The base class is not visible, or it has none that could be called.
            return self.torch.opaque_result(f"{name}.forward", args, kwargs, node)
        result = self._run_opaque(owner, args, kwargs, node)
        if owner.cls is not None and isinstance(result, Unknown):
            # A class without a forward of its own: that of the subclass it is written for has parameters nobody knows.
            result.trust = result.trust._replace(returned=True, data=False)
        return result

    def _run_fact(self, owner: Instance, fact: ModuleFact, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        torch = self.torch
        training = concrete(owner.attrs.get("training", True))
        bound: Kwargs = dict(zip(fact.forward_params, args))
        bound.update(kwargs)
        given, parts = bound.get("input"), packed.opened(fact, bound)
        # torch.compile leaves the graph for recurrent layers.
        self.world.modes.compiling.breaks += fact.name in packed.RECURRENT
        fact = self._of_call(owner, fact, bound)
        what: OpFact = fact.eval if training is False else fact.train
        groups = self._own_tensors(owner, what, node)
        for name, values in groups.items():
            bound[name] = values[0] if len(values) == 1 else tuple(values)
        for name in what.writing.mutates:
            changed = bound.get(name)
            if isinstance(changed, Tensor) and name not in fact.forward_params:
                self.world.graph.change(changed, node, f"update of {name}", grad_mode="no")
        if what.aliasing.returns_input == "yes" and not what.writing.mutates and args:
            return args[0]
        in_place = args[:1] if _is_in_place(owner, fact) else []
        name, numbers = _op_of(owner, fact, in_place)
        if self.facts.op(name) is not None:
            return torch.op(name, args[:1] or [given], numbers, node)
        for name in groups.keys() - set(what.inputs):
            # A parameter that forward was never seen to use carries nothing.
            del bound[name]
        result = torch.apply(what, bound, node, next(filter(may_carry, in_place), None))
        return packed.closed(self.world.writer, fact, given, parts, result)

    def _own_tensors(self, owner: Instance, what: OpFact, node: ast.AST) -> dict[str, list[Value]]:
        """Return a module's parameters and buffers by the names that the facts have for them."""
        groups: dict[str, list[Value]] = {}
        for name, value in owner.attrs.items():
            if type(value) is Tensor:
                # Of a module of very many parameters the facts know the last part of the name only.
                known = classes.of_first_layers(name, what.inputs)
                short = f"*.{name.rsplit('.', 1)[-1]}" if what.wide and "." in name else known
                groups.setdefault(short, []).append(value)
        for name in layer_of(owner).parametrized:
            groups[name] = [parametrized.weight(self.torch, owner, name, node)]
        return groups

    def _of_call(self, owner: Instance, fact: ModuleFact, bound: Kwargs) -> ModuleFact:
        """Return the fact for one call of a module, by what decides besides the constructor's arguments."""
        layer = layer_of(owner)
        kinds = layer.kinds or ([], {})
        given, named = kinds
        more = {
            f"forward.{name}": self.torch.kind(bound[name]) if name in bound else fact.forward_defaults[name]
            for name in fact.deciding
        }
        first = bound.get("input")
        if isinstance(first, Tensor) and first.length == 1 and "batch_first" in fact.params:
            # A batch of one lies in memory as it would with the batch in second place.
            place = fact.params.index("batch_first")
            if place < len(given):
                given = [*given[:place], "False", *given[place + 1 :]]
            else:
                more["batch_first"] = "False"
        if not more and given is kinds[0]:
            return fact
        known = layer.narrowed
        key = (tuple(given), tuple(more.items()))
        if key not in known:
            known[key] = fact.for_call(given, {**named, **more})
        return known[key]

    def _run_opaque(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Return a class of torch.nn without facts: differentiable in its inputs and parameters."""
        self.ran(owner, args, node)
        parameters = [tensor for _, tensor in self.named_parameters(owner)]
        values = self.torch.tensors((*args, *kwargs.values()))
        name = owner.lib.rsplit(".", 1)[-1]
        keeps: Fact = "yes" if parameters else "may"
        return self.torch.opaque(name, [*parameters, *values], node, linked="yes", keeps=keeps)

    def functional_call(self, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """torch.func.functional_call: forward with other tensors in place of the parameters."""
        owner = argument(args, kwargs, 0, "module")
        replaced = argument(args, kwargs, 1, "parameter_and_buffer_dicts")
        inputs = argument(args, kwargs, 2, "args", ())
        dicts = only(listed(replaced), Dict)
        if not isinstance(owner, Instance) or len(dicts) != len(listed(replaced)):
            return self.torch.opaque_result("functional_call", args, kwargs, node)
        undo: list[tuple[Instance, str, Value]] = []
        tied = concrete(kwargs.get("tie_weights", True)) is not False
        named = {key: item for part in dicts for key, item in part.items.items()}
        places = [(*place, item) for key, item in named.items() for place in self._places_of(owner, str(key), tied)]
        if self.region is not None and wrappers.keeps_own(
            self.region, owner, all(known is value for *_, known, value in places)
        ):
            return self.torch.opaque_result("functional_call", args, kwargs, node)
        for home, last, known, value in places:
            undo.append((home, last, known))
            home.attrs[last] = value
        try:
            return self.call(owner, listed(inputs), {}, node)
        finally:
            # A tied parameter may be there twice: what it was before the first time is what it was.
            for home, last, value in reversed(undo):
                home.attrs[last] = value

    def _places_of(self, owner: Instance, path: str, tied: bool) -> list[tuple[Instance, str, Value]]:
        """Return where a module has what a path leads to, with that: where it is `tied`, under other names, too."""
        home, last = _home_of(owner, path)
        if home is None or last not in home.attrs:
            return []
        known = home.attrs[last]
        # Whoever has the same parameter under another name has the new one as well.
        sharing = [one for _, one in self.modules(owner)] if tied and isinstance(known, Tensor) else []
        others = [(one, name, known) for one in sharing for name, held in one.attrs.items() if held is known]
        return [(home, last, known), *(place for place in others if place[:2] != (home, last))]


_OPTIONAL: dict[str, tuple[bool, tuple[str, ...]]] = {
    "weight_hr": (True, ("proj_size",)), "bias_k": (True, ("add_bias_kv",)), "bias_v": (True, ("add_bias_kv",)),
    "q_proj_weight": (True, ("kdim", "vdim")), "k_proj_weight": (True, ("kdim", "vdim")),
    "v_proj_weight": (True, ("kdim", "vdim")), "in_proj_weight": (False, ("kdim", "vdim")),
}  # fmt: skip
"""Parameters that a module has, or has not, where one of these arguments is given."""


def _op_of(owner: Instance, fact: ModuleFact, in_place: Args) -> tuple[str, Kwargs]:
    """Return the op that a module is no more than, with what it is given besides; no name where it is none."""
    if in_place:
        return f"{_snake(fact.name)}_", {}
    return ("flatten", {**_FLATTENED, **layer_of(owner).given}) if fact.name == "Flatten" else ("", {})


def _is_in_place(owner: Instance, fact: ModuleFact) -> bool:
    """Whether a module was made with `inplace=True`, which its class has."""
    given = layer_of(owner).given
    return fact.inplace_flag and concrete(given.get("inplace", owner.attrs.get("inplace"))) is True


def _home_of(owner: Instance, path: str) -> tuple[Instance | None, str]:
    """Return the module that a path within one leads to, None where it leads to none, and the last name of it."""
    home: Value = owner
    # A layer of torch's own holds its inner parameters under names with dots.
    while isinstance(home, Instance) and path not in home.attrs and "." in path:
        part, _, path = path.partition(".")
        home = home.attrs.get(part)
    return (home if isinstance(home, Instance) else None), path


def _is_answer(value: Value) -> bool:
    """Whether a hook has given something that takes the place of what it was given."""
    return value is not None and not isinstance(value, Unknown)


def _gather_modules(owner: Instance, prefix: str, seen: set[int], found: list[tuple[str, Instance]]) -> None:
    if id(owner) in seen:
        return
    seen.add(id(owner))
    found.append((prefix, owner))
    for name, value in owner.attrs.items():
        if type(value) not in INERT and is_module(value):
            _gather_modules(value, f"{prefix}.{name}" if prefix else name, seen, found)


def _gather_parameters(owner: Value, prefix: str, seen: set[int], found: list[tuple[str, Tensor]]) -> None:
    if id(owner) in seen or len(seen) > limits.MOST_REGISTERED:
        return
    seen.add(id(owner))
    if isinstance(owner, Unknown):
        leaf = _leaf_of_model(owner)
        if leaf is not None and id(leaf) not in seen:
            seen.add(id(leaf))
            found.append((f"{prefix}{owner.name}", leaf))
    elif isinstance(owner, Instance):
        _gather_of_attributes(owner, prefix, seen, found)


def _gather_of_attributes(owner: Instance, prefix: str, seen: set[int], found: list[tuple[str, Tensor]]) -> None:
    """Gather the parameters of a module, and those of the modules in it, by the names of its attributes."""
    registered = owner.layer.parameters if owner.layer is not None else ()
    for name, value in owner.attrs.items():
        if type(value) in INERT:
            continue
        if isinstance(value, Tensor):
            if (value.parameter or name in registered) and id(value) not in seen:
                seen.add(id(value))
                found.append((prefix + name, value))
        elif is_module(value) or _is_of_model(value):
            _gather_parameters(value, f"{prefix}{name}.", seen, found)


def _leaf_of_model(value: Unknown) -> Tensor | None:
    """Return the leaf that stands for the parameters of an unknown model, or of the one that a value is a part of."""
    whole = value.part_of.within
    return whole.kept.leaf if value.kept.leaf is None and whole is not None else value.kept.leaf


def _is_of_model(value: Value) -> bool:
    """Whether a value is a model that nobody knows, or a part of one."""
    return isinstance(value, Unknown) and (value.kept.leaf is not None or value.part_of.within is not None)


def _layered(names: tuple[str, ...], flags: dict[str, Value]) -> list[str]:
    """Return the parameter names of a module, with as many layers and directions as it was built with."""
    bases = dict.fromkeys(classes.without_layer(name) for name in names if classes.LAYER.search(name))
    plain = [name for name in names if not classes.LAYER.search(name)]
    if not bases:
        return _stacked(plain, flags)
    layers = known_int(flags.get("num_layers", 1)) or 1
    count = layers if 0 < layers <= limits.MAX_LAYERS else 1
    directions = ("", "_reverse") if flags.get("bidirectional") is True else ("",)
    return plain + [f"{base}_l{layer}{way}" for layer in range(count) for way in directions for base in bases]


def _stacked(names: Sequence[str], flags: dict[str, Value]) -> list[str]:
    """Return the parameter names of a module that is made of copies of a layer, for as many as it was built with."""
    found: dict[str, None] = {}
    for name in names:
        if (parts := classes.COPY.fullmatch(name)) is None:
            found[name] = None
            continue
        stack, _, rest = parts.groups()
        whole = stack.partition("layers.")[0].rstrip(".")
        number = known_int(flags.get(f"num_{whole}_layers" if whole else "num_layers"))
        if number is None or not 0 < number <= limits.MAX_LAYERS:
            # Nobody knows how many there are: those that were measured stand for them.
            found[name] = None
            continue
        found.update((f"{stack}{index}{rest}", None) for index in range(number))
    return list(found)


def _has_parameter(name: str, flags: dict[str, Value]) -> bool:
    """Return whether a module that was made with some flags has a parameter of its class."""
    switches = ("affine", "elementwise_affine", *(("bias",) if "bias" in name else ()))
    if any(flags.get(switch) is False for switch in switches):
        return False
    wanted = _OPTIONAL.get(classes.without_layer(name))
    return wanted is None or any(flags.get(flag) not in (None, False, 0) for flag in wanted[1]) == wanted[0]


def _defaults(fact: ModuleFact | None) -> dict[str, Value]:
    """Return the flags that a constructor has when they are not passed."""
    known: dict[str, Value] = {"True": True, "False": False, "None": None}
    overloads = fact.train.overloads if fact is not None else ()
    return {name: known[kind] for each in overloads for name, kind in each.defaults.items() if kind in known}


def _guessed_parameters(name: str, args: Args) -> tuple[str, ...]:
    if ANY_LAYER.endswith(f".{name}"):
        return ("weight",) if args else ()
    if name.startswith(
        ("Linear", "Conv", "BatchNorm", "LayerNorm", "GroupNorm", "InstanceNorm", "Bilinear", "RMSNorm")
    ):
        return ("weight", "bias")
    if name.startswith("Embedding") or name == "PReLU":
        return ("weight",)
    if name.startswith(("LSTM", "GRU", "RNN", "Transformer", "Multihead")):
        return ("weight",)
    return ()


def _snake(name: str) -> str:
    return {"ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "SiLU": "silu", "Sigmoid": "sigmoid",
            "Tanh": "tanh",
            "Hardtanh": "hardtanh", "ReLU6": "relu6", "SELU": "selu", "CELU": "celu", "Dropout": "dropout",
            "Mish": "mish",
            "Hardswish": "hardswish", "Threshold": "threshold", "RReLU": "rrelu"}.get(name, name.lower())  # fmt: skip


def _note_moved(parameter: Tensor, precision: str | Unknown | None) -> None:
    """Note that a parameter may be on another device than it was made on, and the type that it has now."""
    if parameter.noted(Mark.ON_HOST):
        parameter.note(Mark.ON_HOST, False)
    if precision is not None and parameter.noted(Mark.PRECISION) != precision:
        parameter.note(Mark.PRECISION, precision)


def _children(owner: Instance) -> Iterator[tuple[str, Value]]:
    """Yield the modules that a module has by name: what code that is not visible has made may be one, too."""
    for name, value in owner.attrs.items():
        if is_module(value) or _is_hidden(value):
            yield name, value


def _holds_no_more(named: tuple[str, Instance]) -> bool:
    """Whether a module surely holds no other one than those that are known: its class, and all in its attributes."""
    _, module = named
    bases = () if module.cls is None else module.cls.library_bases()
    return all(map(visible.base_modelled, bases)) and not any(
        type(value) is Unknown and not value.trust.data for value in module.attrs.values()
    )


def _is_hidden(value: Value) -> bool:
    """Whether a value was made by code that is not visible: it may be a module."""
    return type(value) is Unknown and visible.is_opaque(value)
