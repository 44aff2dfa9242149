"""What torch's CUDA graphs do to outputs, without a GPU: `mode="reduce-overhead"` compiles to functions of this module.

The rules are those of `torch._inductor.cudagraph_trees` of torch 2.13: each call of a compiled function begins a
generation, unless a forward waits for its backward; after a `cudagraph_mark_step_begin` only such a mark begins one.
What begins one takes the memory of all outputs that calls of an earlier one have left, and who reads these then is
refused. Nothing is captured: each call computes what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.mutation_guard import GenerationTracker
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MODES = ("reduce-overhead", "max-autotune")
_OVERWRITTEN = "Error: accessing {}tensor output of CUDAGraphs that has been overwritten by a subsequent run."
_compile = torch.compile
_Left = dict[int, tuple[StorageWeakRef, str]]


class Tree:
    """The memory of outputs that calls have left, and of those that a later call has overwritten."""

    def __init__(self) -> None:
        self.generation = self.marks = 0
        self.pending = False
        self.left: _Left = {}
        self.overwritten: _Left = {}

    def mark(self) -> None:
        """`torch.compiler.cudagraph_mark_step_begin()`."""
        self.marks -= 1

    def call(self, graph: Callable[..., Any], mode: str, inputs: Sequence[Any]) -> Any:
        """Run a compiled graph."""
        now = self.marks or GenerationTracker.generation
        if now != self.generation and (self.marks or not self.pending):
            self.overwritten, self.left = {**self.overwritten, **self.left}, {}
        self.generation = now
        outputs = graph(*inputs)
        if mode != "inference":
            self.pending = mode == "forward"
        given = {_memory(value) for value in inputs if isinstance(value, torch.Tensor)}
        for one in outputs:
            if isinstance(one, torch.Tensor) and _memory(one) not in given:
                storage = one.untyped_storage()
                self.left[storage._cdata] = StorageWeakRef(storage), "gradient " if mode == "backward" else ""
        return outputs


class Guard(TorchDispatchMode):  # type: ignore[misc]
    """Refuse what reads memory that was overwritten; views of it may be made."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.tree = tree

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)) if not func.is_view and self.tree.overwritten else ():
            storage, kind = self.tree.overwritten.get(_memory(value), (None, "")) if _is_real(value) else (None, "")
            if storage is not None and not storage.expired():
                raise RuntimeError(_OVERWRITTEN.format(kind))
        return func(*args, **(kwargs or {}))


def _is_real(value: object) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter)


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def install(program: str) -> None:
    """Let torch compile to such functions in this process, where a program asks for CUDA graphs."""
    if not any(mode in program for mode in MODES):
        return
    tree = Tree()

    def compiler(mode: str, graph: Callable[..., Any], _: Sequence[Any]) -> Callable[..., Any]:
        return partial(_called, tree, graph, mode)

    backend = aot_autograd(
        fw_compiler=partial(compiler, "forward"), bw_compiler=partial(compiler, "backward"),
        inference_compiler=partial(compiler, "inference"),
    )  # fmt: skip

    def compile_(model: Any = None, *, mode: str | None = None, **options: Any) -> Any:
        if mode not in MODES:
            return _compile(model, mode=mode, **options)
        return _compile(model, backend=backend, **options)

    torch.compile = compile_
    torch.compiler.cudagraph_mark_step_begin = tree.mark
    Guard(tree).__enter__()


def _called(tree: Tree, graph: Callable[..., Any], mode: str, *inputs: Any) -> Any:
    return tree.call(graph, mode, inputs)
