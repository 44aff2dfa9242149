"""Where torch is watched: the engine as it is looked up, and optimizers around their steps."""

from __future__ import annotations

import importlib
import sys
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Callable, List, Mapping, Optional, Sized

from .guard import Guard, keep_uncompiled
from .recording import Recording
from .sharded import Sharded
from .signals import due, trip
from .values import transforming

if TYPE_CHECKING:
    from torch._C import _ImperativeEngine
    from torch.autograd.graph import Node
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle

    from .graph import Root


class Engine:
    """Stands in for torch's autograd engine and hands out the real one's methods.

    The real `run_backward` is called by torch itself, so no frame of the recorder ever stands in the traceback of
    a failing backward: everything worth knowing is read when torch looks the method up.
    """

    def __init__(self, engine: _ImperativeEngine, recorder: Recording) -> None:
        self._engine = engine
        self._recorder = recorder
        self._plainly = recorder.torch._C.DisableTorchFunction
        self._transforms = transforming(recorder.torch)

    def __getattr__(self, name: str) -> object:
        return getattr(self._engine, name)

    @property
    def run_backward(self) -> object:
        recorder = self._recorder
        if recorder.failures:
            return self._engine.run_backward
        tracer = recorder.tracer
        paused = False
        # What a `Guard` does, in place: it runs at every call, and each call of Python's is dear while it traces.
        try:
            with recorder.lock, self._plainly():
                if recorder.rests.rest is not None:
                    recorder.rests.wake(sys._getframe(1))
                paused = tracer.trace is not None and tracer.pause()
                # Inside torch.func transforms the tensors are wrappers whose graphs end with the transform.
                if not self._transforms():
                    if tracer.paused is not None:
                        tracer.overslept()
                    frame = sys._getframe(1)
                    lines = tracer.only
                    calls = None if lines is None else recorder.passing.regular.get(lines.place)
                    hidden, passes = recorder.hidden.by_backward, recorder.passing.passes_regular
                    if lines is None or calls is None or recorder.unused.alive or not passes(calls, lines, frame):
                        _announce(recorder, frame)
                    if hidden:
                        recorder.hidden.walked()
        except Exception:
            recorder.failed()
        if paused:
            try:
                tracer.go_on()
            except Exception:
                recorder.failed()
        if due:
            trip[due.popitem()[0]]
        return self._engine.run_backward


def _announce(recorder: Recording, frame: FrameType) -> None:
    local = frame.f_locals
    if "args" in local and "t_outputs" in local:
        # torch >= 2.4: _engine_run_backward(t_outputs, grads, retain, create, inputs, ..., accumulate_grad=)
        args, words = local["args"], local.get("kwargs") or {}
        retain, create, inputs = args[1], args[2], args[3] if len(args) > 3 else ()
        accumulates = words.get("accumulate_grad", True)
    elif "t_outputs" in local:
        retain, create, inputs, accumulates = local["retain_graph"], local["create_graph"], local["t_inputs"], False
    elif "tensors" in local:
        retain, create, inputs, accumulates = local["retain_graph"], local["create_graph"], local["inputs"], True
    else:
        return
    wanted = list(inputs) if inputs else None
    recorder.walks.backward(frame, _roots(local), wanted, bool(retain), bool(create), bool(accumulates))


def roots_of(frame: FrameType) -> List[Root]:
    """Return the roots of the backward that a frame of torch's own hands to the engine."""
    return _roots(frame.f_locals)


def _roots(local: Mapping[str, object]) -> List[Root]:
    roots = local.get("t_outputs", local.get("tensors", ()))
    return list(roots) if isinstance(roots, (list, tuple)) else [roots]


def nodes_of(roots: List[Root]) -> List[Optional[Node]]:
    """Return the graph node of each root, a tensor or a GradientEdge; None for a tensor without graph."""
    # A GradientEdge is a tuple; to ask a tensor for what it has not is slow.
    return [getattr(root, "node" if isinstance(root, tuple) else "grad_fn", None) for root in roots]


def install(torch: ModuleType, recorder: Recording) -> Callable[[], None]:
    """Watch torch; what is answered undoes it."""
    variable = torch.autograd.Variable
    engine = variable._execution_engine
    variable._execution_engine = Engine(engine, recorder)
    handles: List[RemovableHandle] = []
    optimizers = importlib.import_module("torch.optim.optimizer")

    tracer, changes, sharded = recorder.tracer, recorder.changes, Sharded(recorder)
    # Where a step is compiled, torch.compile goes through its hooks as well: this is all it is to find in them.
    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", bool)
    keep_uncompiled()
    around_all = [getattr(optimizers, "_global_optimizer_%s_hooks" % when, ()) for when in ("pre", "post")]

    plainly = torch._C.DisableTorchFunction

    def before(optimizer: Optimizer, args: Sized, words: Mapping[str, object]) -> None:
        if not recorder.failures and not compiling():
            paused = alone = False
            try:
                with recorder.lock, plainly():
                    if recorder.rests.rest is not None:
                        recorder.rests.wake(sys._getframe(0))
                    paused = tracer.trace is not None and tracer.pause()
                    if tracer.paused is not None:
                        tracer.overslept()
                    alone = changes.before_step(optimizer, len(args) > 1 or bool(words))
                    sharded.before_step()
            except Exception:
                recorder.failed()
            if paused:
                try:
                    if (
                        alone and len(args) == 1 and not words and tracer.paused is None and tracer.only is not None
                        and _unhooked(optimizer, around_all)
                    ):  # fmt: skip
                        # Until `after` all that runs is torch's own: up to half of the calls of an iteration.
                        tracer.paused = tracer.only
                    else:
                        tracer.go_on()
                except Exception:
                    recorder.failed()
        if due:
            trip[due.popitem()[0]]

    def after(optimizer: Optimizer, args: object, words: object) -> None:
        if not recorder.failures and not compiling():
            paused = False
            try:
                with recorder.lock, plainly():
                    paused = tracer.paused is not None and tracer.paused is tracer.lines()
                    if paused:
                        tracer.paused = None
                    else:
                        paused = tracer.trace is not None and tracer.pause()
                    changes.after_step(optimizer)
                    recorder.hidden.stepped(optimizer)
            except Exception:
                recorder.failed()
            if paused:
                try:
                    tracer.go_on()
                except Exception:
                    recorder.failed()
        if due:
            trip[due.popitem()[0]]

    if hasattr(optimizers, "register_optimizer_step_pre_hook"):
        handles.append(optimizers.register_optimizer_step_pre_hook(before))
        handles.append(optimizers.register_optimizer_step_post_hook(after))
    patch = getattr(optimizers.Optimizer, "_patch_step_function", None)
    if patch is not None:

        def made(optimizer: Optimizer) -> object:
            if not recorder.failures and not compiling():
                with Guard(recorder):
                    recorder.rests.wake(sys._getframe(1))
                    recorder.changes.optimizer_made(optimizer)
            patched = patch(optimizer)
            if due:
                trip[due.popitem()[0]]
            return patched

        optimizers.Optimizer._patch_step_function = made
    if not hasattr(torch._C._autograd.SavedTensor, "data"):
        _watch_saved_tensor_hooks(torch, recorder)

    def undo() -> None:
        sharded.undo()
        variable._execution_engine = engine
        if patch is not None:
            optimizers.Optimizer._patch_step_function = patch
        for handle in handles:
            handle.remove()

    return undo


def _unhooked(optimizer: Optimizer, around_all: List[Sized]) -> bool:
    """Return whether no hook runs around an optimizer's step but the recorder's own."""
    before, after = around_all
    if len(before) != 1 or len(after) != 1 or getattr(optimizer, "_optimizer_step_pre_hooks", True):
        return False
    return not getattr(optimizer, "_optimizer_step_post_hooks", True)


def _watch_saved_tensor_hooks(torch: ModuleType, recorder: Recording) -> None:
    # Before torch 2.7 a saved tensor can be read only by unpacking it: that must stop once somebody packs.
    hooks = torch.autograd.graph.saved_tensors_hooks
    enter = hooks.__enter__

    def entered(self: object) -> object:
        recorder.reader.hooks_possible = True
        return enter(self)

    hooks.__enter__ = entered
