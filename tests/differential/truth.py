"""What really happens: programs run under torch, each in a process of its own.

As a script it is a server: one JSON request a line on standard input ({"text": program, and what else is asked}),
one outcome a line on standard output. torch is imported once; a program gets a forked child, which takes
milliseconds.

A condition that hangs on the values of tensors or on chance can be answered as the request wants (`force`), so that
every way through a program can be run.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

NAME = "p.py"
SECONDS = 20
_COMPILING = (
    "networkx",
    "torch._dynamo.backends.debugging",
    "torch._functorch.partitioners",
    "torch._inductor.compile_fx",
)
WAYS = 14
"""Ways through a program with conditions on data that are run: all true, all false, and others by chance."""
_OF_DATA = frozenset(["sum", "mean", "item", "norm", "random", "rand"])
# Fragments of torch's messages, most telling first.
KINDS = (
    ("second", "Trying to backward through the graph a second time"),
    ("stale", "has been modified by an inplace operation"),
    ("no-graph", "does not require grad and does not have a grad_fn"),
    ("leaf", "leaf Variable that requires grad is being used in an in-place operation"),
    ("unused", "appears to not have been used in the graph"),
    ("double", "does not currently support double backward"),
    ("donated", "compiled with non-empty donated buffers"),
    ("unfinished", "Expected to have finished reduction in the prior iteration"),
    ("ready-twice", "Expected to mark a variable ready only once"),
    ("reentrant", "torch.utils.checkpoint is incompatible with .grad()"),
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
    caught: tuple[tuple[str, int], ...] = ()
    """Errors of autograd that the program caught and noted (see `going_on`), kind and line."""


class Truth:
    """The server, held open; use as a context manager.

    Raises RuntimeError where the server dies.
    """

    def __init__(self, python: str = sys.executable, cache: Path | None = None) -> None:
        self._python = python
        self._server: subprocess.Popen[str] | None = None
        self._known: dict[str, dict[str, Any]] = {}
        self._file = None
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            self._file = (cache / "outcomes.jsonl").open("a+")
            self._file.seek(0)
            for row in self._file:
                key, answer = json.loads(row)
                self._known[key] = answer

    def __enter__(self) -> Truth:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        if self._server is not None:
            assert self._server.stdin is not None and self._server.stdout is not None
            self._server.stdin.close()
            self._server.stdout.close()
            try:
                self._server.wait(SECONDS)
            except subprocess.TimeoutExpired:
                # What was compared must not be lost with it.
                self._server.kill()
                self._server.wait()

    def run(self, text: str, *, digest: bool = False, force: int | None = None) -> Outcome:
        """How a program ends; `force` is the number of a way through its conditions on data."""
        request: dict[str, Any] = {"text": text, "digest": digest}
        if force is not None:
            request["force"] = force
        answer = self.ask(request)
        return Outcome(**{**answer, "caught": tuple((kind, line) for kind, line in answer.get("caught", ()))})

    def ways(self, text: str) -> list[Outcome]:
        """How a program with conditions on data ends, whichever way they go; none where it has none."""
        if not conditions_on_data(ast.parse(text)):
            return []
        return [self.run(text, force=way) for way in range(WAYS)]

    def starved(self, text: str) -> set[tuple[int, int]] | None:
        """The parameters (optimizer, place in it) that optimizers step and that never get a gradient.

        None where the program raises or nothing is stepped.
        """
        answer = self.ask({"text": text, "digest": False, "starved": True})
        if answer["kind"] is not None or not answer.get("starved", {}).get("steps"):
            return None
        return {(optimizer, place) for optimizer, place in answer["starved"]["never"]}

    def growth(self, text: str) -> list[dict[str, Any]] | None:
        """What each outermost loop of a program leaves behind (see `growth`), None where it raises."""
        found: list[dict[str, Any]] | None = self.ask({"text": text, "growth": True})["loops"]
        return found

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The server's answer to one request, or the cache's."""
        row = json.dumps(request)
        key = hashlib.sha1(row.encode()).hexdigest()
        if key in self._known:
            return self._known[key]
        if self._server is None:
            self._server = subprocess.Popen(
                [self._python, __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={
                    **os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
                    "PYTHONPATH": str(Path(__file__).parents[2]),
                },
            )  # fmt: skip
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(row + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError("the process that runs programs under torch has died")
        found: dict[str, Any] = json.loads(answer)
        if self._file is not None:
            self._known[key] = found
            self._file.write(json.dumps([key, found]) + "\n")
            self._file.flush()
        return found


NOTE = "note_error"


def going_on(text: str) -> str:
    """The program with every error of a statement that binds nothing caught and noted, so that it goes on."""
    tree = ast.parse(text)

    class Catch(ast.NodeTransformer):
        def wrap(self, node: ast.stmt) -> ast.stmt:
            handler = ast.parse(f"try:\n    pass\nexcept RuntimeError as error:\n    {NOTE}(error)").body[0]
            assert isinstance(handler, ast.Try)
            handler.body = [node]
            return handler

        def visit_Expr(self, node: ast.Expr) -> ast.stmt:
            return self.wrap(node) if isinstance(node.value, ast.Call) else node

        def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
            return self.wrap(node)

    for statement in tree.body:
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)) or statement.name in ("main", "Trainer"):
            Catch().visit(statement)
    tree.body[:0] = ast.parse(f"def {NOTE}(error):\n    pass").body
    return ast.unparse(ast.fix_missing_locations(tree))


def conditions_on_data(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    """Conditions on values of tensors or on chance: each as its parent and the field that holds it."""
    found: list[tuple[ast.AST, str]] = []
    for node in ast.walk(tree):
        name = "value" if isinstance(node, ast.Assign) else "test"
        test = getattr(node, name, None) if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assign)) else None
        if isinstance(test, ast.Compare) and any(
            isinstance(part, ast.Call)
            and (getattr(part.func, "attr", "") in _OF_DATA or getattr(part.func, "id", "") == "float")
            for part in ast.walk(test)
        ):
            found.append((node, name))
        elif isinstance(node, (ast.If, ast.Assign)) and isinstance(test, ast.Compare):
            # `if loss > 0.5`: a plain name against a number with a fraction is a tensor here, never an index.
            against = test.comparators[0]
            if isinstance(against, ast.Constant) and isinstance(against.value, float):
                found.append((node, name))
    return found


def _forced(text: str, way: int) -> tuple[ast.Module, Any]:
    """The program with its conditions on data answered as one of the ways says."""
    tree = ast.parse(text)
    for number, (parent, name) in enumerate(conditions_on_data(tree)):
        test = getattr(parent, name)
        call = ast.Call(ast.Name("_branch", ast.Load()), [ast.Constant(number), test], [])
        setattr(parent, name, ast.copy_location(call, test))
    chance = random.Random(way)

    def branch(number: int, value: Any) -> bool:
        bool(value)
        if way < 2:
            return way == 0
        if way < 2 + (WAYS - 2) // 2:
            return random.Random(way * 1000 + number).random() < 0.5
        return chance.random() < 0.5

    return ast.fix_missing_locations(tree), branch


def _noting(text: str, caught: list[list[Any]]) -> tuple[ast.Module, Callable[[BaseException], None]]:
    """The program of `going_on` with a function of ours where its own is."""
    tree = ast.parse(text)
    tree.body = [node for node in tree.body if getattr(node, "name", "") != NOTE]

    def note(error: BaseException) -> None:
        kind = kind_of(f"{type(error).__name__}: {error}")
        if kind == "other":
            raise SystemExit("an error that says nothing of graphs")
        caught.append([kind, _line_of(error)])

    return tree, note


def _line_of(error: BaseException) -> int | None:
    """The innermost line of the program in a traceback."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == NAME:
            if trace.tb_frame.f_code.co_name == "backward" and line is not None:
                # The backward of a custom Function: what the program itself did is the call of the engine.
                break
            line = trace.tb_lineno
        trace = trace.tb_next
    # What fails while torch.compile traces a call is raised by the call: where it stands the message says.
    _, traced, told = str(error).partition("from user code:")
    inside = [
        int(row.split(", ")[1].removeprefix("line ")) for row in told.splitlines() if f'File "{NAME}", line ' in row
    ]
    return inside[-1] if traced and inside else line


def _execute(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program in this process, which must not be used for another one."""
    if request.get("growth"):
        from tests.differential.growth import watch

        return watch(request["text"])
    if "silent" in request:
        from tests.differential import silent_truth

        return silent_truth.watch(request["text"], silent_truth.Change(**request["silent"]))
    scope: dict[str, Any] = {"__name__": "__main__", "__file__": NAME}
    code: Any = request["text"]
    if "torch.compile" in code:
        # It looks for the names of a program in its module.
        module = sys.modules["__main__"] = ModuleType("__main__")
        scope = vars(module)
    caught: list[list[Any]] = []
    if f"def {NOTE}(" in code:
        code, scope[NOTE] = _noting(code, caught)
    # Programs may ask Python for chance, too.
    random.seed(0)
    try:
        if "force" in request:
            code, scope["_branch"] = _forced(code, request["force"])
        told = _watch_steps() if request.get("starved") else None
        exec(compile(code, NAME, "exec"), scope)
    except BaseException as error:
        line = _line_of(error)
        message = f"{type(error).__name__}: {error}"
        kind = kind_of(message) if isinstance(error, RuntimeError) else "other"
        return {"kind": kind, "line": line, "message": message[:400], "caught": caught}
    answer: dict[str, Any] = {"kind": None, "line": None, "digest": _digest(scope) if request["digest"] else ""}
    if caught:
        answer["caught"] = caught
    return answer if told is None else {**answer, "starved": told()}


def _watch_steps() -> Callable[[], dict[str, Any]]:
    """Note at each optimizer step which parameters have a gradient."""
    from torch.optim import Optimizer
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    seen: list[Optimizer] = []
    fed: dict[tuple[int, int], bool] = {}

    def note(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not any(optimizer is other for other in seen):
            seen.append(optimizer)
        number = next(i for i, other in enumerate(seen) if other is optimizer)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for place, parameter in enumerate(parameters):
            fed[number, place] = fed.get((number, place), False) or parameter.grad is not None

    register_optimizer_step_pre_hook(note)
    return lambda: {"steps": len(seen), "never": [list(key) for key, had in fed.items() if not had]}


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
    # Collections in the children look at what their program makes, not at all that torch's modules hold.
    gc.collect()
    gc.freeze()
    out = os.fdopen(os.dup(1), "w")
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    for row in sys.stdin:
        request = json.loads(row)
        if "compile(" in request.get("text", ""):
            # What the first compilation imports takes longer than most programs: the children need not do it again.
            list(map(importlib.import_module, _COMPILING))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os.dup2(sink, 2)
            signal.alarm(SECONDS)
            answer = json.dumps(_execute(request))
            with os.fdopen(writer, "w") as pipe:
                pipe.write(answer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        if request.get("growth") and not answer:
            answer = json.dumps({"loops": None})
        out.write((answer or json.dumps({"kind": "other", "line": None, "message": "the child died"})) + "\n")
        out.flush()


if __name__ == "__main__":
    _serve()
