"""Which Python runs a script where none was named: Tapecheck's own if it has torch, else that of the project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

IN_PROJECT = (".venv", "venv", "env", ".env")
"""The names of virtual environments beside a project."""
_SECONDS = 20
_HAS_TORCH = (
    "import sys; from importlib.util import find_spec; "
    "sys.exit(sys.version_info < (3, 9) or find_spec('torch') is None)"
)
_NEUTRAL = str(Path(os.__file__).parent)
"""A working directory without files of strangers: Python puts it on the path."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter, and where it was found: "" for the one that runs Tapecheck.

    `others` are those that were looked at and have no torch.
    """

    python: str
    found: str = ""
    others: tuple[str, ...] = ()


def find_interpreter(
    folder: str, env: Mapping[str, str] = os.environ, has_torch: Callable[[str], bool] | None = None
) -> Interpreter:
    """Return the Python that is to run a program of a folder.

    It is the one that runs this process if it has torch, else the first that has torch of: the active environment
    (`VIRTUAL_ENV`, `CONDA_PREFIX`), a virtual environment in the folder or in one above it, `python3` and `python` on
    the path. Where none has, it is the one that runs this process.
    """
    has_torch = has_torch or _has_torch
    if has_torch(sys.executable):
        return Interpreter(sys.executable)
    others: list[str] = []
    for python, found in _candidates(folder, env):
        if python == sys.executable or python in others:
            continue
        if has_torch(python):
            return Interpreter(python, found, tuple(others))
        others.append(python)
    return Interpreter(sys.executable, "", tuple(others))


def _candidates(folder: str, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield interpreters and where each is from, the likeliest first."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = env.get(variable)
        python = _python_of(Path(prefix)) if prefix else None
        if python is not None:
            yield python, f"the active environment ({variable})"
    home = Path(folder).absolute()
    for above in (home, *home.parents):
        for name in IN_PROJECT:
            place = above / name
            python = _python_of(place) if (place / "pyvenv.cfg").is_file() else None
            if python is not None:
                yield python, "the project's environment"
        if (above / ".git").exists():
            break
    for name in ("python3", "python"):
        python = shutil.which(name, path=env.get("PATH"))
        if python is not None:
            yield python, "the path"


def _python_of(prefix: Path) -> str | None:
    """Return the interpreter of an environment; on Windows conda has it at the top."""
    names = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python", "bin/python3")
    return next((str(prefix / name) for name in names if (prefix / name).is_file()), None)


def _has_torch(python: str) -> bool:
    if python == sys.executable:
        return find_spec("torch") is not None
    try:
        done = subprocess.run(
            [python, "-c", _HAS_TORCH], cwd=_NEUTRAL, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
