#!/usr/bin/env python3
"""How long it takes to find the files of imported modules, and what of a workspace is executed for it; beside jedi.

    python benchmarks/names.py                  # Tapecheck alone
    python benchmarks/names.py --jedi PYTHON    # and jedi, in a process of the Python that has it

Both are asked about the same project, made for it in a folder of its own: a `src` layout, a virtual environment whose
`.pth` files name an editable project (one by its folder, one by a finder, one with an `import` line), and a compiled
module. Whatever code of it runs leaves a file behind.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

from tapecheck.source.modules import Modules, Sources
from tapecheck.source.project import Setup

IMPORTS = (
    "nets", "layout.nets", "editable.nets", "renamed", "space.deep.nets", "quick._heapq", "json", "torch", "einops",
)  # fmt: skip
FINDER = """\
import sys
from importlib.util import spec_from_file_location

MAPPING: dict[str, str] = {"renamed": "FOLDER"}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in MAPPING:
            return spec_from_file_location(name, MAPPING[name] + "/__init__.py")


def install():
    sys.meta_path.append(Finder)
"""
"""What setuptools writes for an editable project, in short."""
JEDI = """\
import sys, time
start = time.perf_counter()
import jedi
loaded = time.perf_counter()
root, python, names = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
project = jedi.Project(root, environment_path=python)
code = "".join(f"import {name}\\n" for name in names)
found, rounds = {}, []
for _ in range(5):
    begin = time.perf_counter()
    script = jedi.Script(code, path=root + "/train.py", project=project)
    for line, name in enumerate(names, 1):
        answers = script.goto(line, len("import ") + len(name), follow_imports=True)
        found[name] = str(answers[0].module_path) if answers and answers[0].module_path else None
    rounds.append((time.perf_counter() - begin) * 1e3)
import json
print(json.dumps({"import": (loaded - start) * 1e3, "rounds": rounds, "found": found}))
"""


def make(root: Path) -> Path:
    """Make the project; returns its Python."""
    ran = f"import pathlib; pathlib.Path({str(root)!r}, 'ran-' + {{!r}}).touch()\n"
    net = "class Net:\n    pass\n"
    python = root / ".venv" / "bin" / "python"
    venv.create(root / ".venv", symlinks=True)
    site = next((root / ".venv" / "lib").glob("python*")) / "site-packages"
    finder = FINDER.replace("FOLDER", str(root.parent / "far" / "code"))
    files = {
        root / "pyproject.toml": "",
        root / "train.py": "",
        root / "nets.py": net,
        root / "src" / "layout" / "__init__.py": "",
        root / "src" / "layout" / "nets.py": net,
        root / "space" / "deep" / "nets.py": net,
        root / "vendor" / "quick" / "__init__.py": ran.format("a package of the workspace") + "from . import _heapq\n",
        root.parent / "far" / "editable" / "nets.py": net,
        root.parent / "far" / "code" / "__init__.py": net,
        site / "far.pth": f"{root.parent / 'far'}\n{root / 'vendor'}\n",
        site / "finder.pth": "import __editable___mine_finder; __editable___mine_finder.install()\n",
        site / "__editable___mine_finder.py": finder,
        site / "lines.pth": ran.format("a line of a pth file"),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    compiled = next(Path(sysconfig.get_config_var("DESTSHARED")).glob("_heapq.*"))
    shutil.copy(compiled, root / "vendor" / "quick" / compiled.name)
    return python


def ours(root: Path, python: Path) -> tuple[list[float], dict[str, str | None]]:
    """Milliseconds of each round, and the files."""
    found: dict[str, str | None] = {}
    rounds = []
    program = str(root / "train.py")
    setup = Setup().with_interpreters({"": str(python)})
    for _ in range(5):
        begin = time.perf_counter()
        modules = Modules(program, Sources(), setup.project_of(program))
        for name in IMPORTS:
            found[name] = modules.find(name, 0, program)
        rounds.append((time.perf_counter() - begin) * 1e3)
    return rounds, found


def report(title: str, root: Path, rounds: list[float], found: dict[str, str | None]) -> None:
    """Print one row for each name."""
    print(f"{title}: first {rounds[0]:.1f} ms, then {statistics.median(rounds[1:]):.2f} ms")
    for name, file in found.items():
        print(f"    {name:18} {Path(file).as_posix().replace(root.parent.as_posix() + '/', '') if file else '-'}")
    executed = sorted(path.name.removeprefix("ran-") for path in root.glob("ran-*"))
    print(f"    executed: {', '.join(executed) or 'nothing'}")
    for path in root.glob("ran-*"):
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jedi", metavar="PYTHON", help="a Python that has jedi")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        python = make(root)
        report("tapecheck", root, *ours(root, python))
        if options.jedi:
            command = [options.jedi, "-c", JEDI, str(root), str(python.parent.parent), ",".join(IMPORTS)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            said = json.loads(done.stdout)
            report(f"jedi (import: {said['import']:.0f} ms)", root, said["rounds"], said["found"])


if __name__ == "__main__":
    sys.exit(main())
