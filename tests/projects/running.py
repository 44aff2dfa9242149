"""Run the main file of a small project within the test's own process."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def run_main(main: Path, *folders: Path) -> Iterator[dict[str, Any]]:
    """Run a program whose modules lie beside it (and in `folders`), and yield the names that it leaves.

    Modules of the same name that another test has loaded are put away before, and the program's own ones after.
    """
    where = [main.parent, *folders]
    own = {file.stem for folder in where for file in folder.glob("*.py")}
    before, path = dict(sys.modules), sys.path[:]
    for name in own:
        sys.modules.pop(name, None)
    sys.path[:0] = map(str, where)
    try:
        yield runpy.run_path(str(main))
    finally:
        sys.path[:] = path
        for name in own:
            sys.modules.pop(name, None)
            if name in before:
                sys.modules[name] = before[name]
