"""Run programs under real torch and say how each ended: the truth that cases and seeds are held against.

As a script it reads a JSON list of requests ({"path", "edits", "append"}) from standard input and prints a
JSON list of outcomes. Each program runs in a process of its own, forked where that is possible, since torch
takes longer to import than all of them take to run.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Request = dict[str, Any]
Outcome = dict[str, Any]


def run_all(requests: Sequence[Request], python: str = sys.executable) -> list[Outcome]:
    """Run programs in an interpreter that has torch.

    A request names a file and may have `edits` ([old, new] text replacements), `append` (a line added at the end),
    `folders` that modules are imported from first, and `seconds` after which the program ends with `Late`. An outcome
    has `exception` (the type's name or None), `message` (its first line), `line` (the deepest one in the file),
    `output` (what was printed), `state` (a digest of all tensors that require grad, with their gradients, that the
    program's globals reach), `parameters` (one of their values alone), `steps` (a digest of the parameters after each
    optimizer step) and `graphs` (the number of nodes behind the root of each backward).
    """
    done = subprocess.run(
        [python, str(Path(__file__))],
        input=json.dumps([{**request, "path": str(request["path"])} for request in requests]),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise RuntimeError(f"the programs could not be run: {done.stderr[-2000:]}")
    outcomes: list[Outcome] = json.loads(done.stdout)
    return outcomes


def has_torch(python: str = sys.executable) -> bool:
    """Whether an interpreter has torch, found without importing it."""
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([python, "-c", probe], check=False).returncode == 0


def edited(path: Path, request: Request) -> str:
    """The program's text with the request's edits made; an edit that fits no text raises ValueError."""
    text = path.read_text()
    for old, new in request.get("edits", ()):
        if old not in text:
            raise ValueError(f"{path.name}: no {old!r} to replace")
        text = text.replace(old, new)
    return text + request.get("append", "")


def run(request: Request, transform: Callable[[str], Any] | None = None) -> Outcome:
    """Run one program in this process, which must not be used for another one; `transform` makes of its text what is
    compiled."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    path = Path(request["path"])
    text = edited(path, request)
    sys.path[:0] = request.get("folders", [])
    if "seconds" in request:
        signal.signal(signal.SIGALRM, _late)
        signal.alarm(request["seconds"])
    code = compile(transform(text) if transform is not None else text, str(path), "exec")
    graphs: list[int] = []
    backward = torch.autograd.backward

    def measured(tensors: Any, *rest: Any, **options: Any) -> Any:
        roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        graphs.append(graph_size([root.grad_fn for root in roots]))
        return backward(tensors, *rest, **options)

    torch.autograd.backward = measured
    steps: list[str] = []

    def stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        steps.append(digest_of(leaf for group in optimizer.param_groups for leaf in group["params"]))

    hook = register_optimizer_step_post_hook(stepped)
    torch.manual_seed(0)
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    sys.modules["__main__"] = module
    sys.argv = [str(path)]
    outcome: Outcome = {"exception": None, "message": "", "line": None, "output": ""}
    output = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as scratch,
        contextlib.chdir(scratch) if hasattr(contextlib, "chdir") else contextlib.nullcontext(),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            exec(code, module.__dict__)
        except BaseException as error:
            outcome["exception"] = type(error).__name__
            outcome["message"] = (str(error).splitlines() or [""])[0]
            frames = traceback.extract_tb(error.__traceback__)
            outcome["line"] = next((f.lineno for f in reversed(frames) if f.filename == str(path)), None)
    if "seconds" in request:
        signal.alarm(0)
    torch.autograd.backward = backward
    hook.remove()
    outcome["output"] = output.getvalue()
    leaves = leaves_of(module.__dict__)
    outcome["state"] = digest_of(tensor for leaf in leaves for tensor in (leaf, leaf.grad))
    outcome["parameters"] = digest_of(leaves)
    outcome["steps"] = steps
    outcome["graphs"] = graphs
    return outcome


class Late(BaseException):
    """Ends a program that takes longer than it may."""


def _late(*_: object) -> None:
    raise Late


def graph_size(roots: Sequence[Any]) -> int:
    """How many nodes are reachable from the roots, leaves' accumulators left out."""
    seen = set()
    stack = [root for root in roots if root is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(parent for parent, _ in node.next_functions if parent is not None)
    return sum(type(node).__name__ != "AccumulateGrad" for node in seen)


def leaves_of(names: dict[str, Any]) -> list[Any]:
    """Every leaf that requires grad, in the order of the globals that hold it or the module it belongs to."""
    import torch

    gc.collect()
    leaves: list[Any] = []
    for value in names.values():
        if isinstance(value, torch.nn.Module):
            leaves.extend(value.parameters())
        elif isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
            leaves.append(value)
    return leaves


def _bytes_of(tensor: Any) -> bytes:
    """Return the numbers of a tensor; numpy has no type for some of them."""
    import torch

    dense = tensor.detach().to_dense()
    return bytes((dense.double() if dense.dtype == torch.bfloat16 else dense).numpy().tobytes())


def digest_of(tensors: Iterable[Any]) -> str:
    """A digest of tensors' values; None stands for a gradient that is not there."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(b"none" if tensor is None else _bytes_of(tensor))
    return digest.hexdigest()[:16]


def main() -> None:
    """Serve the requests on standard input."""
    import torch
    import torch._dynamo  # the first optimizer imports it: seconds, paid once here instead of in every child
    import torch.func
    import torch.utils.checkpoint

    torch.set_num_threads(1)
    torch.distributions.Categorical(torch.ones(2))
    requests = json.load(sys.stdin)
    # The forks' collections leave out what torch's modules hold.
    gc.collect()
    gc.freeze()
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as pool:
        json.dump(pool.map(run, requests, chunksize=1), sys.stdout)


if __name__ == "__main__":
    main()
