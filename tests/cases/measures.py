"""What torch says of the mistakes that raise nothing: the column "truth" of each rule, measured in one program.

As a script it reads a JSON list of requests ({"path", "rule", "line", ...}) from standard input and prints a JSON list
of measurements. Every request is answered in a process of its own.

| rule | what is measured at `line` |
|---|---|
| needless-graph | under `torch.no_grad()` the loop, or the call that runs it, ends alike and saves less for backward |
| scaled-gradient-read | the gradients there are so many times as large as with a scale of 1 |
| checkpoint-without-gradient | parameters that get a gradient only where every checkpoint is `use_reentrant=False` |
| term-without-effect | the parameters after every step are those of the program `without` the term |
"""

from __future__ import annotations

import ast
import gc
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[2])]

from tests.cases import under_torch

Request = dict[str, Any]
Measured = dict[str, Any]


def measure_all(requests: Sequence[Request], python: str = sys.executable) -> list[Measured]:
    """Measure programs in an interpreter that has torch; each answer has `holds`, and the numbers behind it."""
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
        raise RuntimeError(f"the programs could not be measured: {done.stderr[-2000:]}")
    measured: list[Measured] = json.loads(done.stdout)
    return measured


def _needless(request: Request) -> Measured:
    """Compare the program with one whose statement at `line`, a loop or what runs one, builds no graphs."""
    plain = _with_saved_bytes(request)
    wrapped = _with_saved_bytes({**request, "wrapped": request["line"]})
    same = all(plain[key] == wrapped[key] for key in ("exception", "output", "state", "steps"))
    return {
        "holds": same and plain["exception"] is None and wrapped["peak"] < plain["peak"],
        "peak": plain["peak"], "peak_without": wrapped["peak"], "same": same,
    }  # fmt: skip


def _with_saved_bytes(request: Request) -> Measured:
    """Run a program; `peak` is the most bytes that were saved for backward at a time while the statement ran."""
    import torch

    path = str(request["path"])
    loop = _statement(ast.parse(Path(path).read_text()), request["line"])
    rows = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
    live: dict[int, int] = {}
    peak = 0

    class Kept:
        def __init__(self, tensor: Any) -> None:
            nonlocal peak
            self.tensor = tensor
            if isinstance(tensor, torch.nn.Parameter):
                return
            live[id(self)] = tensor.numel() * tensor.element_size()
            if _within(path, rows):
                peak = max(peak, sum(live.values()))

        def __del__(self) -> None:
            live.pop(id(self), None)

    def edit(code: str) -> ast.AST:
        tree = ast.parse(code)
        return _Wrapped(request["wrapped"]).visit(tree) if "wrapped" in request else tree

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        outcome = under_torch.run(request, edit)
    return {**outcome, "peak": peak}


def _within(path: str, rows: range) -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == path and frame.f_lineno in rows:
            return True
        frame = frame.f_back
    return False


def _statement(tree: ast.AST, line: int) -> ast.stmt:
    return next(node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno == line)


class _Wrapped(ast.NodeTransformer):
    """Puts the statement on a line under `torch.no_grad()`."""

    def __init__(self, line: int) -> None:
        self.line = line

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt) and node.lineno == self.line:
            item = ast.withitem(ast.parse("__import__('torch').no_grad()", mode="eval").body)
            return ast.fix_missing_locations(ast.copy_location(ast.With([item], [node]), node))
        return self.generic_visit(node)


def _scaled(request: Request) -> Measured:
    """Compare the gradients where the program comes to `line` first with those that a scale of 1 gives."""
    import torch

    path, norms = str(request["path"]), []
    make = torch.amp.GradScaler.__init__

    def of_one(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **{**options, "init_scale": 1.0})

    for scale in (None, 1.0):
        torch.amp.GradScaler.__init__ = of_one if scale else make  # type: ignore[method-assign]
        norms.append(_norm_at(path, request))
    torch.amp.GradScaler.__init__ = make  # type: ignore[method-assign]
    times = norms[0] / norms[1] if norms[1] else 0.0
    return {"holds": times > 1.5, "times": times}


def _norm_at(path: str, request: Request) -> float:
    """Return the norm of the gradients of all optimizers' parameters when the program comes to a line with some."""
    import torch

    found: list[float] = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        if event == "line" and frame.f_lineno == request["line"] and not found:
            optimizers = [each for each in gc.get_objects() if isinstance(each, torch.optim.Optimizer)]
            wanted = request.get("optimizer")
            groups = [
                group for each in optimizers for group in each.param_groups
                if wanted is None or each is (frame.f_globals | frame.f_locals).get(wanted)
            ]  # fmt: skip
            gradients = [p.grad.detach() for group in groups for p in group["params"] if p.grad is not None]
            norm = torch.stack([gradient.double().norm() for gradient in gradients]).norm().item() if gradients else 0.0
            if norm:
                found.append(norm)
        return trace

    sys.settrace(trace)
    try:
        under_torch.run(request)
    finally:
        sys.settrace(None)
    return found[0] if found else 0.0


def _checkpoint(request: Request) -> Measured:
    """Return the parameters that get a gradient in no backward, but in some where checkpoints are not reentrant."""
    import torch.utils.checkpoint as module

    plain = _with_gradient(request)
    ours, parts = module.checkpoint, module.checkpoint_sequential

    def not_reentrant(function: Any, *args: Any, **options: Any) -> Any:
        return ours(function, *args, **{**options, "use_reentrant": False})

    module.checkpoint = not_reentrant  # type: ignore[assignment]
    module.checkpoint_sequential = lambda *args, **options: parts(  # type: ignore[assignment]
        *args, **{**options, "use_reentrant": False}
    )
    try:
        other = _with_gradient(request)
    finally:
        module.checkpoint, module.checkpoint_sequential = ours, parts
    lost = sorted(other - plain)
    return {"holds": bool(lost), "lost": lost}


def _with_gradient(request: Request) -> set[str]:
    """Return the parameters, as the program's globals lead to them, that have a gradient after some backward."""
    import torch

    found: set[str] = set()
    inner = torch.autograd.backward

    def backward(*args: Any, **options: Any) -> None:
        inner(*args, **options)
        names = sys.modules["__main__"].__dict__
        for name, value in list(names.items()):
            for holder, each in [(name, value), *((f"{name}.{key}", one) for key, one in _attributes(value))]:
                if isinstance(each, torch.nn.Module):
                    found.update(f"{holder}.{key}" for key, p in each.named_parameters() if p.grad is not None)

    torch.autograd.backward = backward
    try:
        outcome = under_torch.run(request)
    finally:
        torch.autograd.backward = inner
    if outcome["exception"] is not None:
        raise RuntimeError(f"{request['path']}: {outcome['message']}")
    return found


def _attributes(value: Any) -> list[tuple[str, Any]]:
    return list(vars(value).items()) if type(value).__module__ == "__main__" and hasattr(value, "__dict__") else []


def _term(request: Request) -> Measured:
    """Compare what every step made of the parameters with what it makes `without` the term."""
    plain = under_torch.run(request)
    without = under_torch.run({**request, "edits": request["without"]})
    if plain["exception"] or without["exception"]:
        raise RuntimeError(f"{request['path']}: {plain['message']} {without['message']}")
    return {"holds": bool(plain["steps"]) and plain["steps"] == without["steps"], "steps": len(plain["steps"])}


MEASURES: dict[str, Callable[[Request], Measured]] = {
    "needless-graph": _needless,
    "scaled-gradient-read": _scaled,
    "checkpoint-without-gradient": _checkpoint,
    "term-without-effect": _term,
}


def measure(request: Request) -> Measured:
    """Measure one program in this process, which must not be used for another one."""
    return {"path": request["path"], **MEASURES[request["rule"]](request)}


def main() -> None:
    """Serve the requests on standard input."""
    import torch
    import torch._dynamo  # the first optimizer imports it
    import torch.func
    import torch.utils.checkpoint

    torch.set_num_threads(1)
    torch.distributions.Categorical(torch.ones(2))
    # What torch's modules made is no program's: collections that leave it out take milliseconds.
    gc.collect()
    gc.freeze()
    requests = json.load(sys.stdin)
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    with multiprocessing.get_context(method).Pool(2, maxtasksperchild=1) as pool:
        json.dump(pool.map(measure, requests, chunksize=1), sys.stdout)


if __name__ == "__main__":
    main()
