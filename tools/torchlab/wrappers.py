"""Measure what wrappers change and write `wrappers.json`: `python -m tools.torchlab.wrappers`.

Each program of `wrapper_programs` runs in two processes that are joined by gloo. It is "right" where it ends and all
processes have the same gradients at each step, "gradients differ" where they do not, or else it raises. The backend
inductor needs a C++ compiler; without one it is not measured. Needs torch and fork; uses only the CPU.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tools.torchlab.wrapper_programs import BACKENDS, COMPILE, DDP, OPTIONS, compiled_program

OUT = Path(__file__).parents[2] / "server" / "tapecheck" / "torchfacts" / "wrappers.json"
SECONDS = 120
"""How long a program may take: processes that wait for one another do so for ever."""
DIFFER = "gradients differ"
Outcome = tuple[str, int | None]
"""What a program came to, and the line that raised."""


def outcome(program: str, processes: int = 2) -> Outcome:
    """Run a program in some processes and return what it came to: "right", "gradients differ", or the exception."""
    with tempfile.TemporaryDirectory() as folder:
        started = [_start(program, rank, processes, f"{folder}/store") for rank in range(processes)]
        found = [_read(pipe) for pipe in started]
    return next((one for one in found if one[0] not in ("right", DIFFER)), found[0])


def _start(program: str, rank: int, processes: int, store: str) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _run(program, rank, processes, store, write)
    os.close(write)
    return child, read


def _read(started: tuple[int, int]) -> Outcome:
    child, pipe = started
    with os.fdopen(pipe) as file:
        text = file.read()
    os.waitpid(child, 0)
    what, line = json.loads(text) if text else ("died", None)
    return what, line


def _run(program: str, rank: int, processes: int, store: str, pipe: int) -> NoReturn:
    """Run the program as one of the processes, write what it came to, and end."""
    signal.alarm(SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    torch.manual_seed(0)
    begin = dist.init_process_group
    dist.init_process_group = lambda backend: begin(
        backend, init_method=f"file://{store}", rank=rank, world_size=processes
    )
    differing: list[bool] = []

    def compare(optimizer: torch.optim.Optimizer, *_: object) -> None:
        if dist.is_initialized():
            differing.extend(_differ(parameter) for group in optimizer.param_groups for parameter in group["params"])

    register_optimizer_step_pre_hook(compare)
    found: Outcome = ("right", None)
    try:
        exec(compile(program, "program.py", "exec"), {"__name__": "__main__"})
        if any(differing):
            found = (DIFFER, None)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "program.py"]
        found = (str(error).split("\n")[0][:160], lines[-1] if lines else None)
    os.write(pipe, json.dumps(found).encode())
    os._exit(0)


def _differ(parameter: torch.Tensor) -> bool:
    """Return whether the processes have different gradients for a parameter."""
    mine = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.detach().clone()
    all_ = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_, mine)
    return any(not torch.allclose(all_[0], other) for other in all_[1:])


def warm() -> None:
    """Import what programs use before they are forked."""
    torch.set_num_threads(1)
    # A backward that an earlier program compiled without `retain_graph` would be found on the disk, and refuse it here.
    torch.compiler.config.force_disable_caches = True
    warnings.simplefilter("ignore")
    torch.optim.Adam([torch.zeros(1, requires_grad=True)]).zero_grad()
    gc.collect()
    gc.freeze()


def measure() -> dict[str, dict[str, dict[str, str]]]:
    """Return the outcome of every program, by its title and the options or the backend."""
    warm()
    ddp = {question.title: {options: outcome(question.program(options))[0] for options in OPTIONS} for question in DDP}
    backends = [each for each in BACKENDS if each != "inductor" or shutil.which("g++") or shutil.which("clang++")]
    compiled = {
        title: {backend: outcome(compiled_program(text, backend), 1)[0] for backend in backends}
        for title, text in COMPILE.items()
    }
    return {"ddp": ddp, "compile": compiled}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what wrappers change.")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--judge", action="store_true", help="print the outcomes of the programs on standard input")
    options = parser.parse_args()
    if options.judge:
        warm()
        json.dump([outcome(program) for program in json.load(sys.stdin)], sys.stdout)
        return
    out: Path = options.out
    tables = json.loads(out.read_text()) if out.exists() else {}
    tables[torch.__version__.partition("+")[0]] = measure()
    out.write_text(json.dumps(dict(sorted(tables.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
