"""What really happens: programs run under torch, each in a process of its own.

As a script it is a server: one JSON request a line on standard input ({"text": program, "digest": bool}), one
outcome a line on standard output. torch is imported once; a program gets a forked child, which takes
milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import Any

NAME = "p.py"
SECONDS = 20
# Fragments of torch's messages, most telling first.
KINDS = (
    ("second", "Trying to backward through the graph a second time"),
    ("stale", "has been modified by an inplace operation"),
    ("no-graph", "does not require grad and does not have a grad_fn"),
    ("leaf", "leaf Variable that requires grad is being used in an in-place operation"),
    ("unused", "appears to not have been used in the graph"),
)


def kind_of(message: str) -> str:
    """The kind of an error by its message; "other" for what is no error of autograd."""
    return next((kind for kind, fragment in KINDS if fragment in message), "other")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: `kind` is None where it ran to its end, `line` the innermost one in the program.

    `digest` is a hash over every tensor and gradient that the program's globals reach.
    """

    kind: str | None
    line: int | None
    message: str = ""
    digest: str = ""


class Truth:
    """The server, held open; use as a context manager.

    Raises RuntimeError where the server dies.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._server = subprocess.Popen(
            [python, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )

    def __enter__(self) -> Truth:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait(SECONDS)

    def run(self, text: str, *, digest: bool = False) -> Outcome:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps({"text": text, "digest": digest}) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the process that runs programs under torch has died")
        return Outcome(**json.loads(answer))


def _execute(text: str, digest: bool) -> dict[str, Any]:
    """Run a program in this process, which must not be used for another one."""
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": NAME}
    try:
        exec(compile(text, NAME, "exec"), scope)
    except BaseException as error:
        line = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == NAME:
                line = trace.tb_lineno
            trace = trace.tb_next
        message = f"{type(error).__name__}: {error}"
        kind = kind_of(message) if isinstance(error, RuntimeError) else "other"
        return {"kind": kind, "line": line, "message": message[:400]}
    return {"kind": None, "line": None, "digest": _digest(scope) if digest else ""}


def _digest(scope: dict[str, Any]) -> str:
    """A hash over the tensors, with their gradients, that the globals reach."""
    import torch

    found = hashlib.sha256()
    seen: set[int] = set()

    def visit(value: Any, depth: int) -> None:
        if id(value) in seen or depth > 6:
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            found.update(value.detach().contiguous().numpy().tobytes())
            if value.is_leaf and value.grad is not None:
                found.update(b"grad")
                visit(value.grad, depth)
        elif isinstance(value, dict):
            for key, item in value.items():
                found.update(str(key).encode())
                visit(item, depth + 1)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item, depth + 1)
        elif isinstance(value, (int, float)):
            found.update(repr(value).encode())
        elif (hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value)) or isinstance(
            value, torch.nn.Module
        ):
            visit(vars(value), depth + 1)

    for name, value in scope.items():
        if not name.startswith("__"):
            visit(value, 0)
    return found.hexdigest()


def _serve() -> None:
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    for row in sys.stdin:
        request = json.loads(row)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(sink, 2)
            signal.alarm(SECONDS)
            answer = json.dumps(_execute(request["text"], request["digest"]))
            with os.fdopen(writer, "w") as pipe:
                pipe.write(answer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        out.write((answer or json.dumps({"kind": "other", "line": None, "message": "the child died"})) + "\n")
        out.flush()


if __name__ == "__main__":
    _serve()
