"""Measure what wrappers change and write `wrappers.json`: `python -m tools.torchlab.wrappers`.

Each program of `wrapper_programs` runs in two processes that are joined by gloo. It is "right" where it ends and all
processes have the same gradients at each step, "gradients differ" where they do not, or else it raises. The backend
inductor needs a C++ compiler; without one it is not measured. Needs torch and fork; uses only the CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.tensor.parallel
import torch.utils.checkpoint
from torch._inductor import config as inductor_config
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tools.torchlab import replayed
from tools.torchlab.framework_programs import ACCELERATE, FABRIC, Prepared
from tools.torchlab.recomputed_programs import (
    CHECKPOINT,
    HOOKS,
    OFFLOAD,
    REENTRANT,
    checkpoint_program,
    offload_program,
)
from tools.torchlab.sharded_programs import FSDP, RESHARD, TENSOR
from tools.torchlab.wrapper_programs import BACKENDS, COMPILE, DDP, OPTIONS, compiled_program

OUT = Path(__file__).parent / "wrappers.json"
SECONDS = 120
"""How long a program may take: processes that wait for one another do so for ever."""
DIFFER = "gradients differ"
OTHER = "other gradients"
"""The model ends otherwise than without the wrapper."""
Outcome = tuple[str, int | None]
"""What a program came to, and the line that raised."""
Weights = list[list[float]]
Plain = Callable[[dict[str, Any]], None]
"""What takes a wrapper out of torch, given the names of the program, which are there once it has run so far."""


def outcome(program: str, processes: int = 2) -> Outcome:
    """Run a program in some processes and return what it came to: "right", "gradients differ", or the exception."""
    what, line, _ = _outcome(program, processes)
    return what, line


def judged(program: str) -> Outcome:
    """Return the same of a program of the tests: one that shards a model is compared with itself without that."""
    what, line = outcome(program)
    if what == "right" and "fully_shard(" in program:
        what = compared(program, unsharded)
    return what, line


def compared(program: str, plain: Plain, processes: int = 2) -> str:
    """Return what a program came to: "right" where its model ends as it does without the wrapper."""
    what, _, weights = _outcome(program, processes)
    if what not in ("right", DIFFER):
        return what
    wanted, _, reference = _outcome(program, processes, plain)
    if wanted not in ("right", DIFFER):
        return f"right, and raises without: {wanted}"
    same = len(weights) == len(reference) and all(
        len(one) == len(other) and all(abs(a - b) <= 1e-5 + 1e-4 * abs(b) for a, b in zip(one, other))
        for one, other in zip(weights, reference)
    )
    return "right" if same else OTHER


def _outcome(program: str, processes: int, plain: Plain | None = None) -> tuple[str, int | None, Weights]:
    with tempfile.TemporaryDirectory() as folder:
        started = [_start(program, rank, processes, f"{folder}/store", plain) for rank in range(processes)]
        found = [_read(pipe) for pipe in started]
    return next((one for one in found if one[0] not in ("right", DIFFER)), found[0])


def _start(program: str, rank: int, processes: int, store: str, plain: Plain | None) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _run(program, rank, processes, store, write, plain)
    os.close(write)
    return child, read


def _read(started: tuple[int, int]) -> tuple[str, int | None, Weights]:
    child, pipe = started
    with os.fdopen(pipe) as file:
        text = file.read()
    os.waitpid(child, 0)
    what, line, weights = json.loads(text) if text else ("died", None, [])
    return what, line, weights


def _run(program: str, rank: int, processes: int, store: str, pipe: int, plain: Plain | None) -> NoReturn:
    """Run the program as one of the processes, write what it came to, and end."""
    signal.alarm(SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    torch.manual_seed(0)
    begin = dist.init_process_group
    dist.init_process_group = lambda *_, **__: begin(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=processes
    )
    started = {
        "RANK": rank, "LOCAL_RANK": rank, "GROUP_RANK": 0, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes,
        "MASTER_ADDR": "localhost", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "none",
    }  # fmt: skip
    os.environ.update({name: str(value) for name, value in started.items()})
    differing: list[bool] = []

    def compare(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if dist.is_initialized():
            differing.extend(_differ(parameter) for group in optimizer.param_groups for parameter in group["params"])

    # Where a whole step is compiled, what is compared here is no part of it.
    register_optimizer_step_pre_hook(torch.compiler.disable(compare) if "@torch.compile" in program else compare)
    found: Outcome = ("right", None)
    # torch.compile looks for a program's names in its module.
    module = sys.modules["__main__"] = ModuleType("__main__")
    scope = vars(module)
    weights: Weights = []
    replayed.install(program)
    try:
        if plain is not None:
            plain(scope)
        exec(compile(program, "program.py", "exec"), scope)
        weights = _left(scope.get("model"))
        if any(differing):
            found = (DIFFER, None)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "program.py"]
        found = (str(error).split("\n")[0][:160], lines[-1] if lines else None)
    with os.fdopen(pipe, "w") as file:
        json.dump([*found, weights], file)
    os._exit(0)


def _left(model: object) -> Weights:
    """Return the parameters, gradients and buffers that a model ends with; of a shard the whole."""
    if not isinstance(model, torch.nn.Module):
        return []
    for module in model.modules():
        if isinstance(module, torch.distributed.fsdp.FSDPModule):
            # What a forward has gathered is not what the optimizer changes.
            module.reshard()
    kept = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None), *model.buffers()]
    return [_whole(tensor.detach()).double().flatten().tolist() for tensor in kept]


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _differ(parameter: torch.Tensor) -> bool:
    """Return whether the processes have different gradients for a parameter."""
    if isinstance(parameter, DTensor):
        return False
    mine = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach().clone()
    all_ = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_, mine)
    return any(not torch.allclose(all_[0], other) for other in all_[1:])


def unsplit(scope: dict[str, Any]) -> None:
    """Leave layers whole: all processes have the same data."""
    torch.distributed.tensor.parallel.parallelize_module = lambda module, *_: module
    torch.Tensor.full_tensor = torch.Tensor.to_local = lambda tensor: tensor


def unsharded(scope: dict[str, Any]) -> None:
    """Leave modules whole, and average over the processes each gradient that a backward adds to a parameter."""
    unsplit(scope)
    torch.distributed.fsdp.fully_shard = lambda module, **_: module
    torch.distributed.fsdp.register_fsdp_forward_method = lambda module, name: None
    torch.nn.Module.set_requires_gradient_sync = lambda module, on: None
    torch.nn.Module.reshard = lambda module: None
    backward, grad = torch.Tensor.backward, torch.autograd.grad

    def mean_of_ones() -> float:
        # In torch 2.8 gloo adds where it is asked for the mean, and with it FSDP2 on the CPU.
        count = dist.get_world_size()
        out = torch.zeros(1)
        dist.reduce_scatter_tensor(out, torch.ones(count), op=dist.ReduceOp.AVG)
        return float(out)

    def averaged(gradient: torch.Tensor) -> torch.Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient * (mean_of_ones() / dist.get_world_size())

    def averaging_backward(tensor: torch.Tensor, *args: object, **kwargs: object) -> None:
        parameters = list(scope["model"].parameters())
        before = [None if each.grad is None else each.grad.clone() for each in parameters]
        backward(tensor, *args, **kwargs)
        for each, old in zip(parameters, before):
            if each.grad is not None:
                each.grad = averaged(each.grad) if old is None else old + averaged(each.grad - old)

    def averaging_grad(outputs: object, inputs: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        found = grad(outputs, inputs, *args, **kwargs)
        own = {id(each) for each in scope["model"].parameters()}
        inputs = [inputs] if isinstance(inputs, torch.Tensor) else inputs
        return tuple(averaged(each) if id(of) in own else each for each, of in zip(found, inputs))

    torch.Tensor.backward, torch.autograd.grad = averaging_backward, averaging_grad


def stored(scope: dict[str, Any]) -> None:
    """Call checkpointed regions as they are, and leave saved tensors alone."""
    torch.utils.checkpoint.checkpoint = lambda function, *args, use_reentrant, preserve_rng_state=True, **kwargs: (
        function(*args, **kwargs)
    )
    torch.compile = lambda function, **_: function
    torch.nn.Module._orig_mod = property(lambda module: module)
    torch.autograd.graph.save_on_cpu = contextlib.nullcontext
    torch.autograd.graph.saved_tensors_hooks = _NoHooks


class _NoHooks(contextlib.nullcontext[None]):
    def __init__(self, pack: object, unpack: object) -> None:
        super().__init__()


def warm() -> None:
    """Import what programs use before they are forked."""
    torch.set_num_threads(1)
    # A backward that an earlier program compiled without `retain_graph` would be found on the disk, and refuse it here.
    config = torch.compiler.config if hasattr(torch.compiler.config, "force_disable_caches") else inductor_config
    config.force_disable_caches = True
    warnings.simplefilter("ignore")
    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).zero_grad()
    gc.collect()
    gc.freeze()


def _framework(asked: tuple[Prepared, ...]) -> dict[str, dict[str, str]]:
    return {each.title: {"": outcome(each.program())[0]} for each in asked}


def sections() -> dict[str, Callable[[], dict[str, dict[str, str]]]]:
    """Return what measures each section: the outcome of every program, by its title and the options or the backend."""
    backends = [each for each in BACKENDS if each != "inductor" or shutil.which("g++") or shutil.which("clang++")]
    return {
        "ddp": lambda: {each.title: {on: outcome(each.program(on))[0] for on in OPTIONS} for each in DDP},
        "fsdp": lambda: {each.title: {on: compared(each.program(on), unsharded) for on in RESHARD} for each in FSDP},
        "tensor": lambda: {each.title: {"": compared(each.program(), unsplit)} for each in TENSOR},
        **{
            name: partial(_framework, asked)
            for name, asked in (("accelerate", ACCELERATE), ("lightning", FABRIC))
            if find_spec(name) is not None
        },
        "compile": lambda: {
            title: {backend: compared(compiled_program(text, backend), stored, 1) for backend in backends}
            for title, text in COMPILE.items()
        },
        "checkpoint": lambda: {
            title: {options: compared(checkpoint_program(text, options), stored, 1) for options in REENTRANT}
            for title, text in CHECKPOINT.items()
        },
        "hooks": lambda: {
            title: {hooks: compared(offload_program(text, hooks), stored, 1) for hooks in HOOKS}
            for title, text in OFFLOAD.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what wrappers change.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", action="append", choices=sections(), help="measure this section; may be repeated")
    parser.add_argument("--judge", action="store_true", help="print the outcomes of the programs on standard input")
    options = parser.parse_args()
    if options.judge:
        warm()
        json.dump([judged(program) for program in json.load(sys.stdin)], sys.stdout)
        return
    out: Path = options.out
    tables = json.loads(out.read_text()) if out.exists() else {}
    warm()
    measured = tables.setdefault(torch.__version__.partition("+")[0], {})
    for name, measure in sections().items():
        if not options.only or name in options.only:
            measured[name] = measure()
            out.write_text(json.dumps(dict(sorted(tables.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
