"""Wrapped models: DistributedDataParallel, which averages gradients between processes, and torch.compile.

A wrapped model is a module of its own around the model. Its calls run the model and are noted on the tape, so that a
backward is known to be one that DDP waits for, or to walk a graph that was compiled as one node.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from tapecheck.interpret.library import donation, operations, replays
from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.library.states import CompiledState, OptimizerState, ParallelState, kept, state_of
from tapecheck.interpret.objects import syntax
from tapecheck.interpret.state import Order, SizedCode, Sizes, World
from tapecheck.interpret.values import (
    Args,
    Context,
    Dict,
    Instance,
    Interpreter,
    Kwargs,
    List,
    Mark,
    Native,
    Set,
    Signal,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    argument,
    bound_function,
    concrete,
    function_of,
    is_buffer,
    is_constant,
    is_function,
    is_module,
    is_number,
    known_int,
    known_text,
    layer_of,
    marked,
    only_tensors,
)
from tapecheck.tape import (
    NOTHING,
    Cut,
    Decision,
    Escape,
    Fact,
    GradientsReduced,
    GraphRead,
    InPlace,
    Node,
    Wrapper,
    WrapperCall,
    both,
)
from tapecheck.tape.changes import BROADCAST

PARALLEL = "torch.nn.parallel.DistributedDataParallel"
PREPARED = "accelerate.prepared"
"""What a framework makes of a model; whether it is wrapped is not known."""
COMPILED = "torch._dynamo.eval_frame.OptimizedModule"
_PLAIN_BACKENDS = ("eager", "eager_noexcept", "debug", "pre_dispatch_eager")
"""Backends that run the operations as they were written: each keeps its own node."""
_UNCACHED = ("aot_eager",)
"""Backends whose compiled code does not stay on the disk from one run to the next."""
_SETTINGS, _DONATING = "torch._functorch.config", "donated_buffer"
IN_PLACE = "compiled"
"""The kind of hook that stands for `module.compile()`."""
_FORWARD_HOOKS = ("before", "forward")
_BREAKS = (Decision, Escape, GraphRead)
_READING_CUTS = ("item", "numpy")
_NOT_MADE_ANEW = "the code is not compiled anew with hooks that came later"
_DDP_OPTIONS = (
    "module", "device_ids", "output_device", "dim", "broadcast_buffers", "init_sync", "process_group",
    "bucket_cap_mb", "find_unused_parameters", "check_reduction", "gradient_as_bucket_view", "static_graph",
)  # fmt: skip
_COLLECTIVES = ("all_reduce", "all_gather", "reduce", "broadcast", "reduce_scatter", "coalesc", "average", "send")


def fact_of(value: Value) -> Fact:
    """Return whether a flag is set, "may" where that is not known."""
    known = concrete(value)
    return "may" if isinstance(known, Unknown) else "yes" if known else "no"


# -- DistributedDataParallel ------------------------------------------------------------------------------------------


def parallel(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`DistributedDataParallel(model, ...)`: a module around the model."""
    given = {**dict(zip(_DDP_OPTIONS, args)), **kwargs}
    model = given.get("module", Unknown("model"))
    unused, static = (fact_of(given.get(name, False)) for name in ("find_unused_parameters", "static_graph"))
    if isinstance(model, Unknown) and model.node is None and not is_constant(model):
        # It refuses what is no module, or has no parameter to train.
        torch.opaque_parameters(model, node)
    elif not is_module(model):
        return model
    if torch.machine.expects("RuntimeError") and isinstance(model, Instance) and not torch.nn.open_ended(model):
        every = [tensor for _, tensor in torch.nn.named_parameters(model)]
        if all(tensor.graph == "no" for tensor in every):
            # It refuses a model without anything to average.
            raise Signal("RuntimeError")
    owner = averaged(torch, model, node, unused, static)
    if torch.facts.general.get("parallel_forward_changes_buffers", False):
        kept(owner, ParallelState).broadcasts = fact_of(given.get("broadcast_buffers", True))
    return owner


def averaged(
    torch: Torch, model: Instance | Unknown, node: ast.AST, unused: Fact, static: Fact, several: Fact = "yes"
) -> Instance:
    """Return a module around a model whose gradients are averaged between processes, if there are `several`."""
    every = [tensor for _, tensor in torch.nn.named_parameters(model)]
    if isinstance(model, Unknown):
        every += torch.nn.replaced_parameters(model)
    parameters = [tensor for tensor in every if tensor.graph != "no"]
    leaves = tuple(tensor.node for tensor in parameters if tensor.node is not None)
    torch.world.modes.wrapping.averaged.update(
        (each.storage.id, each.node) for each in parameters if each.node is not None
    )
    open_ended = isinstance(model, Unknown) or torch.nn.open_ended(model)
    world = torch.world
    world.modes.wrapping.wrappers += 1
    state = ParallelState(world.modes.wrapping.wrappers, model, (unused, static, several), complete=not open_ended)
    state.frozen = frozenset(tensor.storage.id for tensor in every if tensor.graph == "no")
    owner = _around(model, "module", PARALLEL if several == "yes" else PREPARED)
    owner.state = state
    complete: Fact = "no" if open_ended else "yes"
    at, alone = world.position.site(node), world.modes.wrapping.alone
    world.writer.emit(Wrapper(state.number, at, leaves, unused, static, complete, several, alone=alone))
    return owner


def grouped(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.distributed.init_process_group(..., world_size=1)`: one process has nobody to average with."""
    torch.world.modes.wrapping.alone = known_int(argument(args, kwargs, 3, "world_size", -1)) == 1
    return None


def prepared(torch: Torch, value: Value, node: ast.AST, unused: Fact) -> Value:
    """Return what a framework's `prepare` makes of a value: a model is wrapped where there are several processes."""
    if isinstance(value, Instance) and state_of(value, OptimizerState) is not None:
        # The framework's own optimizer around it has attributes of its own.
        value.open = True
    return averaged(torch, value, node, unused, unused, "may") if is_module(value) else value


def redirecting(value: Value) -> None:
    """Let a wrapped model be Lightning Fabric's: the steps of a LightningModule come through its forward, too."""
    state = state_of(value, ParallelState)
    if state is not None:
        state.redirected = {"training_step", "validation_step", "test_step", "predict_step"}


def unwrapped(value: Value) -> Value:
    """Return the model in one that was wrapped; anything else as it is."""
    while (state := wrapped(value)) is not None:
        value = state.model
    return value


def copy_of(torch: Torch, state: object, model: Value, node: ast.AST) -> object:
    """Return what a deep copy of a wrapped model keeps, which wraps the copy of the model."""
    if isinstance(state, ParallelState) and isinstance(model, (Instance, Unknown)):
        made = kept(averaged(torch, model, node, *state.options), ParallelState)
        made.reduces, made.broadcasts, made.synced = state.reduces, state.broadcasts, state.synced
        made.redirected = None if state.redirected is None else set(state.redirected)
        return made
    return replace(state, model=model, bare={}) if isinstance(state, CompiledState) else state


def _around(model: Instance | Unknown, name: str, path: str) -> Instance:
    """Return a module that holds another one under a name."""
    owner = Instance(None, path, module=True)
    if isinstance(model, Instance):
        owner.attrs["training"] = model.attrs.get("training", True)
    else:
        layer_of(owner).more = True
    owner.attrs[name] = model
    return owner


def no_sync(owner: Instance) -> Context:
    """Return the context in which forwards of a wrapped model do not prepare for gradients to be averaged."""
    state = kept(owner, ParallelState)
    before: list[tuple[Fact, bool]] = []

    def enter(machine: object) -> Value:
        before.append((state.reduces, state.flagged))
        state.reduces, state.flagged = "no", False
        return None

    def leave(machine: object, raised: object) -> None:
        state.reduces, state.flagged = before.pop() if before else ("yes", False)

    return Context(enter, leave)


def collective(torch: Torch, path: str, args: Args, node: ast.AST) -> None:
    """Note a call of torch.distributed that may make gradients the same in all processes."""
    if not path.startswith(("torch.distributed.", "horovod.", "xm.")):
        return
    torch.world.graph.unsettle()
    if any(name in path for name in _COLLECTIVES):
        given = only_tensors(torch.tensors(tuple(args)))
        torch.world.writer.emit(GradientsReduced(torch.world.position.site(node), tuple(_leaves(torch.world, given))))


def _leaves(world: World, given: list[Tensor]) -> dict[int, None]:
    """Return the parameters of wrapped models among tensors, or whose memory these are: `parameter.data`."""
    # What became trainable after the wrapping is averaged by nobody but the program.
    averaged = world.modes.wrapping.averaged | world.modes.wrapping.unwatched
    found = [averaged.get(value.storage.id) for value in given]
    cuts = [world.writer.ledger.cuts[number] for value in given for number in value.cuts]
    found += [leaf for cut in cuts if cut.how in ("data", "detach") for leaf in cut.nodes if leaf in averaged.values()]
    return dict.fromkeys(leaf for leaf in found if leaf is not None)


# -- torch.compile ----------------------------------------------------------------------------------------------------


def compiled(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.compile(model or function, ...)`, or the decorator that it is without one."""
    watch_layouts(torch.world)
    options = {name: value for name, value in kwargs.items() if name != "model"}
    target = argument(args, kwargs, 0, "model")
    if target is None:
        return Native("compile", lambda m, given, named, at: compile_(given[0] if given else None, options))
    return compile_(target, options)


def watch_layouts(world: World) -> None:
    """Keep from now on which tensors may be laid out otherwise than most: compiled code is made for a layout."""
    if world.modes.compiling.laid is None:
        world.modes.compiling.laid = set()


def compile_(target: Value, options: Kwargs) -> Value:
    """Return what torch.compile makes of a module or function of the program; anything else is left as it is."""
    state = _compiling(target, options)
    if state is None:
        return target
    if is_module(target) and state_of(target, ParallelState) is None:
        owner = _around(target, "_orig_mod", COMPILED)
        owner.state = state
        return owner
    if is_function(target):
        return Wrapped("compiled", target, state=state)
    return target


def _compiling(target: Value, options: Kwargs) -> CompiledState | None:
    """Return what is kept of something that is compiled; None where the options leave every operation its node."""
    backend, disabled = concrete(options.get("backend", "inductor")), concrete(options.get("disable", False))
    if backend in _PLAIN_BACKENDS or disabled is True:
        return None
    known = isinstance(backend, str) and disabled in (False, None)
    fullgraph = fact_of(options.get("fullgraph", False)) == "yes"
    return CompiledState(
        target, "yes" if known else "may", fullgraph, replayed=known and replays.asked_for(options),
        cached=backend not in _UNCACHED, asked=tuple((name, _asked(value)) for name, value in sorted(options.items())),
    )  # fmt: skip


def _asked(value: Value) -> object:
    constant = concrete(value)
    return constant if isinstance(constant, (bool, int, float, str)) or constant is None else id(value)


def compiled_in_place(owner: Instance, options: Kwargs) -> Value:
    """`module.compile(...)`: calls of the module are compiled from now on, and it stays what it is."""
    state = _compiling(owner, options)
    owner.hooks = [entry for entry in owner.hooks if entry[0] != IN_PLACE]
    if state is not None:
        owner.hooks.append((IN_PLACE, Wrapped("compiled", owner, state=state)))
    return owner


def in_place(owner: Instance) -> CompiledState | None:
    """Return what `module.compile()` has left."""
    found = next((hook for kind, hook in owner.hooks if kind == IN_PLACE), None) if owner.hooks else None
    return found.state if isinstance(found, Wrapped) and isinstance(found.state, CompiledState) else None


def call_in_place(
    modules: Modules, state: CompiledState, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST
) -> Value:
    """Run the forward of a module after `module.compile()`, or in a container of torch.nn after that of the container.

    torch.compile leaves the code of torch.nn alone, so that it is the forwards of the program in it that are compiled.
    A module of torch.nn with hooks may be compiled or not: that hangs on what was called before.
    """
    if modules.world.modes.compiling.eager:
        return modules.forward(owner, args, kwargs, node)
    outer = modules.compiling
    own = wrapped(owner) is None and modules.has_own_forward(owner)
    hooked = any(kind in _FORWARD_HOOKS for kind, _ in owner.hooks)
    modules.compiling = None if own or hooked else state
    if not own:
        state = replace(state, certain="may")
    given = (*args, *kwargs.values())
    try:
        if own or hooked:
            with replays.running(modules.torch, state, given, node) as results:
                run = partial(modules.forward, owner, args, kwargs, node)
                results.append(_region(modules.torch, state, run, given, node))
            return results[0]
        return modules.forward(owner, args, kwargs, node)
    finally:
        modules.compiling = outer


def synced(owner: Value, name: str, value: Value) -> None:
    """Take `model.require_backward_grad_sync = value` for what it says of the next forwards."""
    state = state_of(owner, ParallelState) if name == "require_backward_grad_sync" else None
    if state is not None:
        state.reduces, state.flagged = fact_of(value), True


def configured(torch: Torch, path: str, name: str, value: Value) -> None:
    """Take `torch._functorch.config.donated_buffer = value` for what it says of backwards that are compiled later, and
    `torch._dynamo.config.disable = True` for what it says of all that is compiled.
    """
    if (path, name) == (_SETTINGS, _DONATING):
        torch.world.modes.compiling.donates = fact_of(value)
    elif (path, name) == ("torch._dynamo.config", "disable"):
        torch.world.modes.compiling.eager = concrete(value) is not False


def patched(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Context:
    """`torch._functorch.config.patch(donated_buffer=False)`, which takes a name and a value or a dict as well."""
    first = args[0] if args else None
    value = kwargs.get(_DONATING)
    if isinstance(first, Dict):
        value = first.items.get(_DONATING)
    elif known_text(first) == _DONATING and len(args) > 1:
        value = args[1]
    modes = torch.world.modes
    before: list[Fact] = []

    def enter(machine: object) -> Value:
        before.append(modes.compiling.donates)
        modes.compiling.donates = modes.compiling.donates if value is None else fact_of(value)
        return None

    def leave(machine: object, raised: object) -> None:
        modes.compiling.donates = before.pop() if before else "yes"

    return Context(enter, leave)


class Stance(Context):
    """What `torch.compiler.set_stance` gives: a context manager, and a decorator that sets it for each call alone."""

    def decorates(self, machine: Interpreter, function: Value, node: ast.AST) -> Value:
        self.leave(machine, None)
        return Wrapped("stance", function, state=self)


def set_stance(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`torch.compiler.set_stance(stance, force_backend=...)`, in force from here on.

    Under any but the default one, some calls or all run what they compiled as it is written.
    """
    modes = torch.world.modes
    modes.compiling.as_usual = False
    usual = known_text(argument(args, kwargs, 0, "stance", "default")) == "default"
    eager, before = not usual or kwargs.get("force_backend") is not None, modes.compiling.eager

    def enter(machine: object) -> Value:
        modes.compiling.eager = eager
        modes.settings += 1
        return None

    def leave(machine: object, raised: object) -> None:
        modes.compiling.eager = before
        modes.settings += 1

    enter(torch.machine)
    return Stance(enter, leave)


# -- calls ------------------------------------------------------------------------------------------------------------


def wrapped(owner: Value) -> CompiledState | ParallelState | None:
    """Return what is kept of a wrapped model; None of any other."""
    return state_of(owner, CompiledState) or state_of(owner, ParallelState)


def attribute(modules: Modules, owner: Instance, name: str, node: ast.AST) -> Value:
    """Return what a wrapped model has under a name that no module has: that of the model in it."""
    if name == "no_sync" and state_of(owner, ParallelState) is not None:
        return Native(name, lambda m, args, kwargs, at: no_sync(owner))
    if name == "_orig_mod" and state_of(owner, ParallelState) is not None:
        # `torch.compile` of it leaves it as it is.
        return owner
    state = wrapped(owner)
    if state is None:
        return None
    parallel_state = state_of(owner, ParallelState)
    if parallel_state is None and modules.machine.library.lacks(owner, name):
        return None
    if parallel_state is not None and name == "mark_forward_method":
        return Native(name, lambda m, args, kwargs, at: _redirect(parallel_state, argument(args, kwargs, 0, "method")))
    found = modules.machine.get_attribute(state.model, name, node)
    if parallel_state is None or not is_function(found):
        return found
    if parallel_state.redirected is not None and name not in parallel_state.redirected:
        return found
    return Native(name, lambda m, args, kwargs, at: _through(modules, parallel_state, found, args, kwargs, at))


def _redirect(state: ParallelState, method: Value) -> Value:
    """`mark_forward_method(name or method)` of Lightning Fabric."""
    function, name = function_of(method), known_text(method)
    name = name if name is not None else getattr(function and function.node, "name", None)
    if name is None:
        state.redirected = None
    elif state.redirected is not None:
        state.redirected.add(name)
    return None


def call(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a wrapped model."""
    compiled_model = state_of(owner, CompiledState)
    if compiled_model is not None:
        return call_compiled(modules.torch, compiled_model, args, kwargs, node)
    state = kept(owner, ParallelState)
    return _through(modules, state, state.model, args, kwargs, node)


def _through(modules: Modules, state: ParallelState, called: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a model that DistributedDataParallel wraps, or a method of it, through the wrapper."""
    world = modules.world
    if state.broadcasts == state.synced == "yes" and isinstance(state.model, Instance):
        for _, module in modules.modules(state.model):
            for name in sorted(layer_of(module).buffers):
                if is_buffer(buffer := module.attrs.get(name)):
                    world.graph.change(buffer, node, BROADCAST, grad_mode="no")
    first = world.writer.last_id
    result = modules.machine.call(called, args, kwargs, node)
    state.synced = reduces = both(state.reduces, world.modes.grad_mode)
    event = WrapperCall(
        world.position.site(node), state.number, first, world.writer.last_id, _roots(modules.torch, result), reduces,
        flagged=state.flagged, late=_late(modules.torch, state),
    )  # fmt: skip
    world.writer.emit(event)
    return result


def _late(torch: Torch, state: ParallelState) -> tuple[int, ...]:
    """Return the parameters of a wrapped model that were frozen, or not there, when it was wrapped."""
    averaged = torch.world.modes.wrapping.averaged
    leaves = set(averaged.values())
    late = {
        each.storage.id: each.node
        for _, each in torch.nn.named_parameters(state.model)
        if each.node is not None and each.is_leaf and each.graph == "yes"
        and (state.complete or each.storage.id in state.frozen)
        and each.storage.id not in averaged and each.node not in leaves
    }  # fmt: skip
    torch.world.modes.wrapping.unwatched.update(late)
    return tuple(late.values())


def call_compiled(torch: Torch, state: CompiledState, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Call a compiled model or function."""
    if torch.world.modes.compiling.eager:
        return torch.machine.call(state.model, args, kwargs, node)
    given = (*args, *kwargs.values())
    sizes = tuple(map(_size, torch.tensors(given)))
    static = not torch.world.modes.compiling.as_usual or dict(state.asked).get("dynamic") not in (None, True)
    state.resized = not static and torch.nn.region is None and _runs_any_size(torch, state, sizes, given, node)
    state.sized = sizes if static else ()
    with replays.running(torch, state, given, node) as results:
        run = partial(torch.machine.call, state.model, args, kwargs, node)
        results.append(_region(torch, state, run, given, node))
    return results[0]


def _size(value: Tensor | Unknown) -> tuple[int | None, Order]:
    """Return what is known of the length of a tensor, and how its elements lie."""
    order: Order = "apart" if marked(value, Mark.LIES_APART) else "across" if operations.lies_across(value) else ""
    return value.length if isinstance(value, Tensor) and type(value.length) is int else None, order


def _runs_any_size(torch: Torch, state: CompiledState, sizes: Sizes, given: Sequence[Value], node: ast.AST) -> bool:
    """Note what a call is compiled to, and return whether it certainly runs code that is compiled for any size.

    torch.compile compiles for any where a size or layout differs from one before, whatever the modes were. What it has
    compiled for one size stays, and is run in its own grad mode, unless what is for any was run last in that mode.
    """
    modes = torch.world.modes
    # Others of one class run the same code.
    codes = modes.compiling.sizes.setdefault(_text_of(torch, state.model), [])
    key: object = None
    for one in reversed(codes):
        if _opposed(one.grad_mode, modes.grad_mode):
            continue
        if one.sizes is not None:
            if _may_be(sizes, one.sizes):
                return False
        elif not _specialised(sizes) and one.state is state:
            key = key or _guards(torch, state, given, node)
            if one.guards == key:
                codes.remove(one)
                codes.append(one)
                return True
    # What sizes there were is remembered for the code, whatever it was compiled with.
    seen = modes.compiling.given.setdefault(_forward_of(torch, state.model), set())
    any_size = not _specialised(sizes) and any(_differ(sizes, before) for before in seen)
    seen.add(sizes)
    key = (key or _guards(torch, state, given, node)) if any_size else None
    codes.append(SizedCode(state, modes.grad_mode, None if any_size else sizes, key))
    return any_size


def _opposed(one: Fact, other: Fact) -> bool:
    """Whether two facts certainly differ."""
    return {one, other} == {"yes", "no"}


def _specialised(sizes: Sizes) -> bool:
    """Whether there is none or a single element: that is never compiled for any size."""
    return any(length in (0, 1) for length, _ in sizes)


def _may_be(now: Sizes, before: Sizes) -> bool:
    """Whether a call may have been given the same sizes as one before."""
    return len(now) == len(before) and not _differ(now, before)


def _differ(now: Sizes, before: Sizes) -> bool:
    """Whether a call was given tensors of another size or layout than one before."""
    return any(
        order != was_order or (None not in (length, was) and length != was)
        for (length, order), (was, was_order) in zip(now, before)
    )


def _region(
    torch: Torch, state: CompiledState, run: Callable[[], Value], given: Sequence[Value], node: ast.AST
) -> Value:
    """Run what is compiled: the nodes that it builds are one, unless something breaks the graph."""
    world = torch.world
    watch_layouts(world)
    guards = _guards(torch, state, given, node)
    first, begun, breaks = world.writer.last_id, len(world.writer.tape.events), world.modes.compiling.breaks
    memory = world.writer.last_storage
    outer, torch.nn.region = torch.nn.region, state
    try:
        result = run()
    finally:
        torch.nn.region = outer
    for value in torch.tensors(result) if outer is None else ():
        operations.lay(torch, False, torch.tensors((*given,)), value)
    if world.writer.last_id != first:
        if not state.whole and (world.modes.compiling.breaks != breaks or _broken(world, begun)):
            state.broken = True
        whole: Fact = "may" if state.broken else state.certain
        donates = donation.donates(torch, state, given, first, memory, result)
        _of_its_own(world, begun, whole)
        outputs = _roots(torch, result)
        site = world.position.site(node)
        code = _code_of(torch, state, first, given)
        guarded = _numbered(world, guards) if donates != "no" else None
        event = WrapperCall(
            site, None, first, world.writer.last_id, outputs, whole=whole, resized=state.resized, code=code,
            donates=donates, guarded=guarded,
        )  # fmt: skip
        world.writer.emit(event)
    return result


def _guards(torch: Torch, state: CompiledState, given: Sequence[Value], node: ast.AST) -> tuple[object, ...]:
    """Return what torch.compile looks at before it runs what it has compiled, beside what the graph shows.

    A length or a whole number that changes is compiled with any in its place, and that compiles the backward at once,
    so that it makes no difference here.
    """
    modes = torch.world.modes
    inside = torch.nn.modules(state.model) if isinstance(state.model, Instance) else ()
    code = _forward_of(torch, state.model)
    if any(operations.laid_otherwise(torch, one) for one in torch.tensors((*given,))):
        modes.compiling.mixed.add(code)
    kept = tuple(
        (name, _guard(torch, value, node, whole=True)) for _, module in inside for name, value in module.attrs.items()
        if isinstance(value, (Tensor, Unknown)) or is_number(value) or (name == "training" and _asks(module))
    )  # fmt: skip
    held = _sizes_read(inside)
    made = tuple(_made_with(torch.world, module) for _, module in inside)
    mixed = code in modes.compiling.mixed
    return modes.settings, kept, held, made, tuple(_guard(torch, value, node, mixed=mixed) for value in given)


def _sizes_read(inside: Sequence[tuple[str, Instance]]) -> tuple[tuple[str, int], ...]:
    """Return how much each list or dict of a module holds that the forward comes to: it is looked at there."""
    lists = tuple(
        (name, len(value.items)) for _, module in inside for name, value in module.attrs.items()
        if isinstance(value, (List, Dict, Set))
    )  # fmt: skip
    return tuple(one for one in lists if _may_read(inside, one[0]))


def _may_read(inside: Iterable[tuple[str, Instance]], name: str) -> bool:
    """Whether the forward of a module, or of one in it, may come to an attribute of that name."""
    for cls in {cls for _, one in inside if one.cls is not None for cls in one.cls.mro()}:
        read = cls.module.notes.of(cls.node, syntax.attributes_in_methods)
        if read is None or name in read:
            return True
    return False


def _forward_of(torch: Torch, model: Value) -> object:
    """Return the text that torch.compile compiles of a model or function: all modules of torch.nn share one."""
    function = function_of(model)
    if function is None and isinstance(model, Instance):
        method = model.attrs.get("forward") or torch.machine.find_method(model, "forward")
        function = bound_function(method)
    return function.node if function is not None else "torch.nn" if is_module(model) else id(model)


def _made_with(world: World, module: Instance) -> object:
    """Return what the sizes of a module's own tensors hang on: those of its like run the same compiled code."""
    given = layer_of(module).given
    if given or module.cls is None:
        return tuple(
            (name, constant if isinstance(constant := concrete(value), (bool, int, float, str, tuple)) else id(value))
            for name, value in given.items() if not isinstance(value, Instance)
        )  # fmt: skip
    return tuple(
        (name, _first_of_copies(world, value)) for name, value in module.attrs.items() if isinstance(value, Tensor)
    )


def _first_of_copies(world: World, value: Tensor) -> object:
    """Return the leaf that a leaf was copied from, by way of others; of any other tensor the memory."""
    leaf = world.writer.ledger.leaves.get(value.node or 0)
    while leaf is not None and leaf.copy_of is not None:
        leaf = world.writer.ledger.leaves.get(leaf.copy_of)
    return None if leaf is None else leaf.id


def _asks(module: Instance) -> bool:
    """Whether a layer of torch.nn looks at its mode."""
    fact = layer_of(module).fact
    return fact is not None and fact.train != fact.eval


def _of_tensor(torch: Torch, tensor: Tensor, *, whole: bool, mixed: bool) -> object:
    """Return what code is compiled for where it is given a tensor; None where that is for this tensor alone."""
    compiling = torch.world.modes.compiling
    alike = tensor.dtype == "float" and not compiling.unlike and not operations.laid_otherwise(torch, tensor)
    if whole:
        return Tensor, tensor.precision() or ("float" if alike else None)
    return (Tensor, tensor.parameter, tensor.length in (0, 1)) if alike and not mixed else None


def _guard(torch: Torch, value: Value, node: ast.AST, *, whole: bool = False, mixed: bool = False) -> object:
    """Return what code is compiled for where it is given a value; `whole` where that is so of whole numbers as well,
    `mixed` where code for several layouts may be run: that of a view is for what the view is of.
    """
    constant = concrete(value)
    if constant is None or isinstance(constant, (bool, str, float)) or (whole and isinstance(constant, int)):
        return type(constant), constant
    if isinstance(constant, int):
        return int
    if isinstance(value, Tensor) and (looked_at := _of_tensor(torch, value, whole=whole, mixed=mixed)) is not None:
        return looked_at
    if isinstance(value, Instance) or whole:
        return value
    # Of anything else one call is taken for given the same each time.
    return type(value), torch.world.position.site(node).span


def _numbered(world: World, guards: tuple[object, ...]) -> int:
    known = world.modes.compiling.guards
    return known.setdefault(guards, len(known) + 1)


def _code_of(torch: Torch, state: CompiledState, first: int, given: Sequence[Value]) -> int:
    """Return the number of the graph that a call was compiled to: those of one number have one compiled backward.

    torch.compile makes another one where other operations are recorded, where the length of a tensor is another, or
    where a flag, a fraction or a parameter is given.
    What it has compiled belongs to the code of the model or function: others of the same class run it as well.
    """
    world, model = torch.world, state.model
    nodes = map(world.writer.ledger.nodes.get, range(first + 1, world.writer.last_id + 1))
    shape = tuple((node.op, len(node.inputs), len(node.saved)) for node in nodes if node is not None)
    kinds = tuple(map(_kind, given))
    key = _text_of(torch, model), state.asked, shape, state.resized, state.sized, world.modes.autocast, kinds
    codes = world.modes.compiling.codes
    return codes.setdefault(key, (len(codes) + 1, model))[0]


def _text_of(torch: Torch, model: Value) -> object:
    """Return what models of one class have in common, and functions of one text; those with hooks have nothing."""
    function = function_of(model)
    if function is not None and function.env is function.env.globals:
        return function.node
    if function is None and is_module(model):
        inside = torch.nn.modules(model)
        if not any(kind != IN_PLACE for _, module in inside for kind, _ in module.hooks):
            return tuple((name, module.cls or module.lib) for name, module in inside)
    return id(model)


def _kind(value: Value) -> object:
    """Return what of a value is never compiled for another one; None where nobody knows, or it may be any."""
    if isinstance(value, Tensor):
        return value.parameter, type(value.length) is int and value.length in (0, 1)
    constant = concrete(value)
    return (type(constant), constant) if isinstance(constant, (bool, float, str)) else None


def runs_hooks(modules: Modules, owner: Instance, node: ast.AST) -> bool:
    """Whether a call of a module runs its hooks.

    Compiled code looks for hooks when it is made, once with and once without grad mode. Those of modules that had none
    then run only where it is made anew.
    """
    state = modules.region
    if state is None or (owner is state.model and modules.has_own_forward(owner)):
        return True
    compiled_for = id(owner), modules.world.modes.grad_mode
    if all(kind == IN_PLACE for kind, _ in owner.hooks):
        state.bare[compiled_for] = owner
    if compiled_for not in state.bare or not owner.hooks:
        return True
    modules.world.assumptions.note("effect", _NOT_MADE_ANEW, node, NOTHING)
    return False


def keeps_own(state: CompiledState, owner: Instance, own: bool) -> bool:
    """Whether compiled code may use the parameters of a module in place of what `functional_call` gives it.

    Measured: code that was compiled when it was given the module's own does so, silently, where the module is global.
    """
    if own:
        state.own[id(owner)] = owner
    return not own and id(owner) in state.own


def _of_its_own(world: World, begun: int, whole: Fact) -> None:
    """Let what a compiled call saves of tensors that it has changed itself be values of its own.

    The call computes the changed values and writes them to the tensors at its end: a later change leaves them alone.
    That holds under `no_grad`, too; what it saves first and changes then is an error.
    """
    events, writer = world.writer.tape.events, world.writer
    changed = {event.storage: place for place, event in enumerate(events[begun:], begun) if isinstance(event, InPlace)}
    for place in range(begun, len(events)) if changed and whole != "no" else ():
        event = events[place]
        if isinstance(event, Node) and any(changed.get(one.storage, place) < place for one in event.saved):
            kept = [
                replace(one, fact=both(one.fact, "no" if whole == "yes" else "may"))
                if changed.get(one.storage, place) < place
                else one
                for one in event.saved
            ]
            events[place] = writer.ledger.nodes[event.id] = replace(event, saved=tuple(kept))


def _roots(torch: Torch, result: Value) -> tuple[int, ...]:
    return tuple(dict.fromkeys(value.node for value in torch.tensors(result) if value.node is not None))


def _broken(world: World, begun: int) -> bool:
    """Whether a call did what torch.compile may leave the graph for."""
    return any(
        isinstance(event, _BREAKS) or (isinstance(event, Cut) and event.how in _READING_CUTS)
        for event in world.writer.tape.events[begun:]
    )


__all__ = [
    "IN_PLACE", "PARALLEL", "attribute", "call", "call_compiled", "call_in_place", "collective", "compile_", "compiled",
    "compiled_in_place", "in_place", "parallel",
]  # fmt: skip
