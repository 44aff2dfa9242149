"""Functions of torch that are no plain ops: grad modes, leaves, checkpoints, and others known by name."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from collections.abc import Generator as PyGenerator

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.library import (
    averaging,
    loaders,
    numbers,
    packed,
    parametrized,
    replays,
    scalers,
    visible,
    wrappers,
)
from tapecheck.interpret.library.contract import Torch
from tapecheck.interpret.library.given_back import sizes_agree
from tapecheck.interpret.library.states import CompiledState
from tapecheck.interpret.objects import unknowns
from tapecheck.interpret.state import merge_cuts
from tapecheck.interpret.values import (
    COUNTED,
    Args,
    Context,
    Generator,
    Instance,
    Kwargs,
    Mark,
    Native,
    Signal,
    Tensor,
    Unknown,
    Value,
    Whole,
    Wrapped,
    Wrapping,
    argument,
    behaviour,
    concrete,
    is_function,
    known_elements,
    may_carry,
    only,
    positional,
    requires_any,
)
from tapecheck.source.nodes import written_argument
from tapecheck.tape import Fact, Span, Switched, as_fact, either


def grad_mode(mode: Fact, kind: Wrapping, inference: bool | None = None) -> Context:
    """Return a context manager that sets the grad mode, and inference mode where that is given."""
    before: list[tuple[Fact, Span | None, int | None, bool, Switched]] = []

    def enter(machine: Engine) -> None:
        world = machine.world
        modes = world.modes
        was_off = modes.grad_mode == "no"
        before.append((modes.grad_mode, modes.off_at, modes.block_calls, modes.inference, modes.stretch))
        if inference is not None:
            modes.inference = inference
        modes.grad_modes[-1], modes.off_at = "no" if modes.inference else mode, None
        if modes.grad_mode != "no":
            modes.block_calls = None
        elif not was_off:
            modes.block_calls = len(world.position.call_stack)
        modes.switched()

    def leave(machine: Engine, raised: Signal | None) -> None:
        if before:
            modes = machine.world.modes
            modes.grad_modes[-1], modes.off_at, modes.block_calls, modes.inference, stretch = before.pop()
            modes.resume(stretch)

    return Context(enter, leave, kind)


def _no_grad(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if args and is_function(args[0]):
        return Wrapped("no_grad", args[0])
    return grad_mode("no", "no_grad")


def _inference_mode(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    on = concrete(argument(args, kwargs, 0, "mode", True))
    switched = on is False or (
        on is not True and not is_function(on) and not _chosen(torch, on, "inference_mode", node)
    )
    return grad_mode("yes", "enable_grad", False) if switched else grad_mode("no", "no_grad", True)


def _chosen(torch: Torch, value: Value, text: str, node: ast.AST) -> bool:
    """Return whether what switches a mode is true."""
    machine = torch.machine
    truth = machine.known_truth(value)
    if truth is None:
        hidden, usual = unknowns.hidden(machine, value), behaviour(value).by_default()
        truth = torch.world.choices.choose(node, True, text, hidden=hidden, usual=usual)
        machine.settle(value, truth)
    return truth


def _set_precision(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    torch.world.modes.precision_is_set = True
    torch.world.modes.settings += 1
    return None


def _set_tensor_type(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    _set_precision(torch, args, kwargs, node)
    return _set_device(torch, args, kwargs, node)


def _set_device(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    torch.world.modes.device_is_set = True
    return None


def _has_accelerator(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    torch.world.modes.accelerators_asked += 1
    return torch.world.modes.accelerated


def _set_grad_enabled(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    truth = _chosen(torch, argument(args, kwargs, 0, "mode", True), "set_grad_enabled", node)
    modes = torch.world.modes
    before, stretch = (modes.grad_modes[-1], modes.off_at), modes.stretch
    # Called as a statement it stays in force; as a context manager it is undone on the way out.
    modes.grad_modes[-1] = "yes" if truth and not modes.inference else "no"
    modes.off_at = None if truth else torch.world.position.span(node)
    modes.switched(told=not modes.asked or _is_written(node))

    def leave(machine: Engine, raised: Signal | None) -> None:
        machine.world.modes.grad_modes[-1], machine.world.modes.off_at = before
        machine.world.modes.resume(stretch)

    def enter(machine: Engine) -> None:
        machine.world.modes.off_at = None

    return Context(enter, leave, "enable_grad" if truth else "no_grad", at_once=True)


def _is_written(node: ast.AST) -> bool:
    """Return whether a call says by itself what it sets, or by what a text is: nothing else has to be known."""
    given = written_argument(node, 0) or next((one.value for one in getattr(node, "keywords", ())), None)
    sides = (given.left, *given.comparators) if type(given) is ast.Compare else ()
    return type(given) is ast.Constant or any(type(one.value) is str for one in only(sides, ast.Constant))


def _is_grad_enabled(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    torch.world.modes.asked = True
    return torch.world.modes.grad_mode != "no"


def _autocast(place: int | None) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """Return a context manager whose argument `enabled` stands at `place`."""

    def make(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        given = args[place] if place is not None and len(args) > place else kwargs.get("enabled", True)
        truth = torch.machine.known_truth(given)
        return autocast(as_fact(truth))

    return make


def autocast(mode: Fact) -> Context:
    """Return a context manager under which ops compute with copies of lower precision."""
    before: list[Fact] = []

    def enter(machine: Engine) -> Value:
        before.append(machine.world.modes.autocast)
        machine.world.modes.autocast = mode
        return Unknown("context")

    def leave(machine: Engine, raised: Signal | None) -> None:
        if before:
            machine.world.modes.autocast = before.pop()

    return Context(enter, leave, next(wrapping for wrapping, other in _AUTOCASTS.items() if other == mode))


def _is_autocast(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    mode = torch.world.modes.autocast
    # Who calls a function that is started by itself may have switched it on.
    return Unknown("autocast") if mode == "may" or torch.world.writer.tape.started else mode == "yes"


PACKING = (
    "torch.autograd.graph.save_on_cpu", "torch.autograd.graph.saved_tensors_hooks",
    "torch.autograd.graph.allow_mutation_on_saved_tensors",
)  # fmt: skip
"""Contexts, and bases of contexts, that take what nodes save."""


def _context(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Context.giving(Unknown("context"))


def packing(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Context:
    """Return a context in which hooks take what nodes save: a change in place is no error, whatever they make of it."""
    modes = torch.world.modes

    def enter(machine: object) -> Value:
        modes.packed += 1
        return Unknown("hooks")

    def leave(machine: object, raised: object) -> None:
        modes.packed -= 1

    return Context(enter, leave)


def _parameter(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    data = argument(args, kwargs, 0, "data")
    wanted = concrete(argument(args, kwargs, 1, "requires_grad", True))
    result = torch.world.graph.data()
    if isinstance(data, Tensor):
        # A parameter shares the memory of its data but counts versions of its own only from here on.
        result.length, result.rank = data.length, data.rank
        numbers.taken_over(torch, data, result)
        kept: tuple[Mark | str, ...] = ("shape", Mark.ON_HOST, Mark.PRECISION)
        result.extra = {mark: data.extra[mark] for mark in kept if mark in data.extra} if data.extra else None
        if Mark.PRECISION not in (data.extra or {}) and not data.parameter:
            result.note(Mark.PRECISION, Unknown.plain("dtype"))
        cuts = torch.world.graph.cut("leaf", node, data, name=data.name) if data.node is not None else data.cuts
        result.cuts = cuts
    result.parameter = True
    if wanted is not False:
        torch.world.graph.make_leaf(result, node, parameter=True)
        torch.nn.loose.append(result)
    return result


def _buffer(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """A buffer shares the memory of its data, and is a leaf that requires grad if that has a graph."""
    given = argument(args, kwargs, 0, "data")
    if not isinstance(given, Tensor):
        return torch.world.graph.data() if given is None else Unknown.named("buffer")
    made = torch.op("detach", [given], {}, node)
    if given.graph == "may":
        return Unknown.named("buffer")
    return torch.requires_grad(made, True, node) if isinstance(made, Tensor) and given.graph == "yes" else made


def _variable(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = positional(args, 0, Unknown())
    if isinstance(value, Tensor):
        given = argument(args, kwargs, 1, "requires_grad")
        wanted = concrete(given)
        if value.node is not None:
            if given is not None and wanted is None:
                return value
            # Its result shares the data and not the graph, as if detached.
            cuts = torch.world.graph.cut("leaf" if wanted is True else "copy", node, value, name=value.name)
            fresh = torch.world.graph.data(value.name, cuts, value.dtype)
            fresh.storage = value.storage
            return torch.world.graph.make_leaf(fresh, node) if wanted is True else fresh
        if value.graph != "no":
            return value
        fresh = _alias(torch, value)
        return torch.requires_grad(fresh, True, node) if wanted is True else fresh
    if isinstance(value, Unknown):
        return _variable_of_unknown(torch, value, argument(args, kwargs, 1, "requires_grad"), node)
    return value


def _variable_of_unknown(torch: Torch, value: Unknown, given: Value, node: ast.AST) -> Value:
    wanted = concrete(given)
    if wanted is True:
        # Whatever it was, its data is a leaf of its own from here on.
        cuts = torch.world.graph.cut("leaf", node, value, name=value.name) if value.node is not None else value.cuts
        fresh = torch.world.graph.data(value.name, cuts)
        fresh.storage = torch.world.graph.storage_of(value)
        return torch.world.graph.make_leaf(fresh, node)
    if value.node is None or (given is not None and wanted is None):
        return value
    result = Unknown(value.name, None, torch.world.graph.cut("copy", node, value, name=value.name))
    result.take_for_data()
    return result


def _alias(torch: Torch, data: Tensor) -> Tensor:
    """Return another tensor with the memory of one without graph: that it requires grad says nothing of the first."""
    alias = torch.world.graph.data(data.name, data.cuts, data.dtype)
    alias.storage, alias.rank, alias.length, alias.items = data.storage, data.rank, data.length, data.items
    if data.extra is not None:
        alias.extra = {mark: value for mark, value in data.extra.items() if mark is not Mark.FROZEN_LEAF}
    return alias


def _grad(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.autograd.grad_function(args, kwargs, node)


def _backward(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return torch.autograd.backward_function(args, kwargs, node)


def _clip(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Gradients are changed in place; the norm is a constant."""
    given = argument(args, kwargs, 0, "parameters")
    # A threshold that was multiplied by the scale of the gradients is one for these.
    scales = any(scalers.of_scale(value) for value in (*args[1:], *kwargs.values()))
    bound = concrete(argument(args, kwargs, 1, "clip_value" if "clip_value" in kwargs else "max_norm"))
    # Under an infinite bound the gradients stay as they are: what is wanted is their norm.
    how = "norm" if bound == math.inf else "clip_grad_norm_"
    for value in [given] if isinstance(given, Tensor) else list(torch.machine.elements(given, node)):
        if isinstance(value, Tensor):
            torch.autograd.read(value, node, "" if scales else how)
            torch.autograd.change_gradient(value, node, "clip_grad")
    return torch.world.graph.data("norm")


def _checkpoint_sequential(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    given = {**dict(zip(("functions", "segments", "input"), args)), **kwargs}
    named = {key: value for key, value in kwargs.items() if key in ("use_reentrant", "preserve_rng_state")}
    model, segments = given.get("functions"), concrete(given.get("segments"))
    layers = [model.attrs[name] for name in torch.nn.children_names(model)] if isinstance(model, Instance) else []
    if not layers or not isinstance(segments, int) or not 0 < segments <= len(layers):
        return _recomputed(torch, model, [given.get("input")], named, node)
    size, value = len(layers) // segments, given.get("input")
    for start in range(0, size * (segments - 1), size):
        part = layers[start : start + size]

        def run(m: Engine, args: Args, more: Kwargs, at: ast.AST, part: list[Value] = part) -> Value:
            return _through(torch, part, args[0], at)

        value = _recomputed(torch, Native("segment", run), [value], dict(named), node)
    # The last segment is run as it is.
    return _through(torch, layers[size * (segments - 1) :], value, node)


def _through(torch: Torch, layers: list[Value], value: Value, node: ast.AST) -> Value:
    for layer in layers:
        value = torch.machine.call(layer, [value], {}, node)
    return value


def _recomputed(torch: Torch, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Have what a checkpointed function saves thrown away and computed anew in backward.

    The reentrant kind is one node that saves the inputs; over inputs that need no grad its result has no graph.
    """
    world = torch.world
    reentrant = concrete(kwargs.pop("use_reentrant", True))
    # None is what the argument is by default: torch warns that it is to be given, and takes True.
    reentrant = True if reentrant is None else reentrant
    for name in ("preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"):
        kwargs.pop(name, None)
    inputs = torch.tensors(tuple(args))
    world.modes.recomputed += 1
    try:
        result = torch.machine.call(function, args, kwargs, node)
    finally:
        world.modes.recomputed -= 1
    if world.modes.grad_mode == "no":
        return result
    # The reentrant kind does not look into lists and dicts.
    needed = requires_any([arg for arg in args if may_carry(arg)] if reentrant is True else inputs)
    if not isinstance(reentrant, bool):
        needed = either("may", needed) if needed == "no" else "may"

    def output(value: Value) -> Value:
        if (items := known_elements(value)) is not None:
            return tuple([output(item) for item in items])
        if not isinstance(value, Tensor) or value.dtype != "float":
            return value
        own = [] if world.modes.recomputed else only(inputs, Tensor)
        if reentrant is False:
            if value.node is None:
                return value
            kept = [world.graph.save(each, each.name, value.graph) for each in own]
            return world.graph.build(
                "CheckpointBackward", node, [value], saved=kept, keeps=value.graph, exists=value.graph
            )
        if needed == "no":
            if value.node is None:
                if world.position.span(node) not in world.modes.checkpointed:
                    # torch warns of it: whoever asks is told that nothing is lost.
                    world.modes.checkpointed.add(world.position.span(node))
                    world.graph.note_cut("checkpoint", node)
                return world.graph.data(value.name, value.cuts)
            return world.graph.data(value.name, world.graph.cut("checkpoint", node, value, name=value.name))
        kept = [world.graph.save(each, each.name, needed) for each in own]
        sources = [each for each in (value, *inputs) if each.node is not None]
        return world.graph.build(
            "CheckpointFunctionBackward", node, sources, saved=kept, keeps=needed, exists=needed,
            recomputes=value.node is not None,
        )  # fmt: skip

    return output(result)


def _each(name: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """Return a function that gives one tensor back for each, by an op on it alone."""

    def run(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        return tuple(torch.op(name, [tensor], {}, node) for arg in args for tensor in torch.tensors(arg))

    return run


def _broadcast(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return tensors with sizes in common: those that have them already are given back."""
    given: Args = [tensor for arg in args for tensor in torch.tensors(arg)]
    agree = sizes_agree(torch, "broadcast_tensors", given, node)
    return tuple(given) if agree else _each("expand")(torch, given, kwargs, node)


def _load(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if concrete(kwargs.get("weights_only")) is False:
        visible.leaves_recording_on(torch, "torch.load", node)
    result = Unknown("torch.load()")
    result.take_for_data()
    result.part_of = Whole(within=result)
    return result


def _is_tensor(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    value = positional(args, 0)
    if isinstance(value, Unknown) and value.kind not in COUNTED:
        return torch.machine.unknown_test(ast.Is(), value, "tensor")
    return isinstance(value, Tensor)


def _scaler(place: int) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """Return a GradScaler whose argument `enabled` stands at `place`."""
    return lambda torch, args, kwargs, node: scalers.made(torch, place, args, kwargs, node)


def _first(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return positional(args, 0, Unknown("result"))


def _nothing(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    return Unknown("result")


def _function(name: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    return lambda torch, args, kwargs, node: torch.op(name, args, kwargs, node)


def _factory(name: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    return lambda torch, args, kwargs, node: torch.factory(name, args, kwargs, node)


def _parameters_to_vector(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    items = list(torch.machine.elements(args[0], node)) if args else []
    return torch.op("cat", [torch.machine.new_list(items, node)], {}, node)


def _from_pretrained(path: str) -> Callable[[Torch, Args, Kwargs, ast.AST], Value]:
    """Return what makes a layer of embeddings that are given: its weight is frozen unless `freeze` says otherwise."""

    def make(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        owner = torch.nn.construct(path, [], {}, node)
        freeze = concrete(argument(args, kwargs, 1, "freeze", True))
        weight = owner.attrs.get("weight")
        if isinstance(weight, Tensor) and freeze is not False:
            wanted = False if freeze is True else Unknown.plain("freeze")
            torch.requires_grad(weight, wanted, node)
        return owner

    return make


def call_wrapped(torch: Torch, wrapped: Wrapped, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    if wrapped.kind in ("no_grad", "enable_grad", "inference_mode"):
        on, modes = wrapped.kind == "enable_grad", torch.world.modes
        outermost = not on and modes.grad_mode != "no" and torch.world.position.frames
        inference = modes.inference
        modes.inference = inference or wrapped.kind == "inference_mode"
        if outermost:
            modes.cut_site = torch.world.position.site(node)
        try:
            with modes.recording("yes" if on and not inference else "no"):
                result = torch.machine.call(wrapped.function, args, kwargs, node)
            if isinstance(result, Generator):
                # A generator function: each of its steps is taken in that mode.
                result.run = _in_mode(torch, result.run, "yes" if on else "no")
            return result
        finally:
            modes.inference = inference
            if outermost:
                modes.cut_site = None
    context = autocast(_AUTOCASTS[wrapped.kind]) if wrapped.kind in _AUTOCASTS else wrapped.state
    if isinstance(context, Context):
        context.enter(torch.machine)
        try:
            return torch.machine.call(wrapped.function, args, kwargs, node)
        finally:
            context.leave(torch.machine, None)
    if isinstance(wrapped.state, CompiledState):
        return wrappers.call_compiled(torch, wrapped.state, args, kwargs, node)
    return torch.machine.call(wrapped.function, args, kwargs, node)


_AUTOCASTS: dict[Wrapping, Fact] = {"autocast": "yes", "perhaps autocast": "may", "no autocast": "no"}


def _in_mode(torch: Torch, run: PyGenerator[Value, Value, Value], mode: Fact) -> PyGenerator[Value, Value, Value]:
    """Yield the steps of a generator, each in a grad mode of its own."""
    sent: Value = None
    thrown: Signal | None = None
    while True:
        try:
            with torch.world.modes.recording(mode):
                value = run.send(sent) if thrown is None else run.throw(thrown)
        except StopIteration as stop:
            returned: Value = stop.value
            return returned
        thrown = None
        try:
            sent = yield value
        except Signal as signal:
            thrown = signal


def _pictured(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Read tensors as the data of a picture, under `no_grad`, and return that."""
    cuts = [
        torch.world.graph.cut("data", node, value, name=value.name)
        for value in torch.tensors((*args, *kwargs.values()))
        if value.node is not None
    ]
    picture = Unknown("picture", None, merge_cuts(*cuts))
    picture.take_for_data()
    return picture


def _saved_as_picture(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> None:
    _pictured(torch, args, kwargs, node)


_MODES: dict[Wrapping, Callable[[Torch, Args, Kwargs, ast.AST], Value]] = {
    "no_grad": _no_grad, "inference_mode": _inference_mode,
    "enable_grad": lambda torch, a, k, n: grad_mode("yes", "enable_grad"),
}  # fmt: skip
_HOMES = ("torch", "torch.autograd", "torch.autograd.grad_mode")
"""The modules that have all of them."""
GRAD_MODES: dict[str, Wrapping] = {f"{home}.{mode}": mode for home in _HOMES for mode in _MODES}
_PRUNING = (
    "identity", "random_unstructured", "l1_unstructured", "random_structured", "ln_structured", "custom_from_mask",
)  # fmt: skip
FUNCTIONS: dict[str, Callable[[Torch, Args, Kwargs, ast.AST], Value]] = {
    **{f"{home}.{mode}": made for home in _HOMES for mode, made in _MODES.items()},
    **{f"{home}.set_grad_enabled": _set_grad_enabled for home in _HOMES},
    **dict.fromkeys(
        (
            "torchvision.utils.make_grid", "torchvision.utils.draw_bounding_boxes", "torchvision.utils.flow_to_image",
            "torchvision.utils.draw_segmentation_masks", "torchvision.utils.draw_keypoints",
        ),
        _pictured,
    ),
    "torchvision.utils.save_image": _saved_as_picture,
    "torch.set_default_device": _set_device, "torch.set_default_tensor_type": _set_tensor_type,
    "torch.set_default_dtype": _set_precision,
    "torch.nn.Parameter": _parameter,
    "torch.nn.Buffer": _buffer, "torch.autograd.Variable": _variable,
    "torch.autograd.grad": _grad, "torch.autograd.backward": _backward,
    "torch.nn.utils.clip_grad_norm_": _clip, "torch.nn.utils.clip_grad_value_": _clip,
    "torch.nn.utils.clip_grad_norm": _clip,
    "torch.utils.checkpoint.checkpoint": (
        lambda torch, a, k, n: _recomputed(torch, positional(a, 0, Unknown("function")), a[1:], k, n)
    ),
    "torch.optim.swa_utils.update_bn": averaging.update_bn,
    "torch.nn.utils.rnn.PackedSequence": packed.made,
    "torch.load": _load, "torch.is_tensor": _is_tensor, "torch.autocast": _autocast(2),
    "torch.cuda.amp.autocast": _autocast(0), "torch.cpu.amp.autocast": _autocast(0),
    "torch.amp.autocast": _autocast(2),
    "torch._functorch.config.patch": wrappers.patched, "torch.autograd.set_detect_anomaly": _context,
    "torch.autograd.detect_anomaly": _context, "torch.profiler.profile": _context,
    **dict.fromkeys(PACKING, packing), "torch.backends.cudnn.flags": _context,
    **loaders.FUNCTIONS,
    **{
        f"torch.nn.modules.module.register_module_{kind}_hook": scalers.hooked
        for kind in ("backward", "full_backward", "full_backward_pre")
    },
    "torch.cuda.amp.GradScaler": _scaler(4), "torch.cpu.amp.GradScaler": _scaler(4),
    "torch.amp.GradScaler": _scaler(5), "torch.GradScaler": _scaler(5),
    "torch.compile": wrappers.compiled, "torch.jit.script": _first, "torch.jit.trace": _first,
    "torch.distributed.init_process_group": wrappers.grouped,
    "torch.compiler.set_stance": wrappers.set_stance,
    "torch.compiler.cudagraph_mark_step_begin": replays.mark,
    "torch.nn.utils.spectral_norm": parametrized.by("nn.utils.spectral_norm"),
    "torch.nn.utils.weight_norm": parametrized.by("nn.utils.weight_norm"),
    "torch.nn.utils.parametrizations.spectral_norm": parametrized.by("nn.utils.spectral_norm"),
    "torch.nn.utils.parametrizations.weight_norm": parametrized.by("nn.utils.weight_norm"),
    "torch.nn.utils.parametrizations.orthogonal": parametrized.by("nn.utils.orthogonal"),
    "torch.nn.utils.parametrize.register_parametrization": parametrized.register,
    "torch.nn.utils.parametrize.remove_parametrizations": parametrized.remove,
    "torch.nn.utils.remove_weight_norm": parametrized.remove,
    "torch.nn.utils.remove_spectral_norm": parametrized.remove,
    **{f"torch.nn.utils.prune.{how}": parametrized.prune for how in _PRUNING},
    "torch.nn.utils.prune.global_unstructured": parametrized.prune_all,
    "torch.nn.utils.prune.remove": parametrized.unprune,
    "torch.nn.utils.parametrize.cached": _context,
    "torch.broadcast_tensors": _broadcast, "torch.meshgrid": _each("expand"),
    "torch.tensor": _factory("tensor"), "torch.Tensor": _factory("Tensor"),
    "torch.cuda.is_available": _has_accelerator,
    "torch.FloatTensor": _factory("FloatTensor"), "torch.LongTensor": _factory("LongTensor"),
    **{f"torch.sparse.{kind}Tensor": _function("sparse_coo_tensor") for kind in ("Float", "Double", "Long")},
    "torch.from_numpy": _factory("from_numpy"), "torch.as_tensor": _factory("as_tensor"),
    "torch.asarray": _factory("asarray"),
    "torch.cuda.FloatTensor": _factory("FloatTensor"), "torch.manual_seed": _nothing,
    "torch.nn.utils.parameters_to_vector": _parameters_to_vector, "torch.save": _nothing,
    "torch.nn.functional.sigmoid": _function("sigmoid"), "torch.nn.functional.tanh": _function("tanh"),
    "torch.is_autocast_enabled": _is_autocast,
    "torch.is_grad_enabled": _is_grad_enabled,
    "torch.nn.ParameterList": lambda torch, a, k, n: torch.nn.construct("torch.nn.ParameterList", a, k, n),
    "torch.nn.Embedding.from_pretrained": _from_pretrained("torch.nn.Embedding"),
    "torch.nn.EmbeddingBag.from_pretrained": _from_pretrained("torch.nn.EmbeddingBag"),
    "torch.utils.checkpoint.checkpoint_sequential": _checkpoint_sequential,
}  # fmt: skip
