"""Booby traps: a folder whose every file leaves a mark when it is imported or executed."""

from __future__ import annotations

import sys
from pathlib import Path

# What Tapecheck, its dependencies, an editor's tools and Python's own start would import by name.
_OTHERS = (
    "tapecheck", "pygls", "lsprotocol", "attr", "attrs", "cattrs", "tomli", "yaml", "typing_extensions",
    "torch", "numpy", "jedi", "parso", "pytest", "conftest", "setup", "sitecustomize", "usercustomize", "__main__",
    "__init__", "noxfile", "helper", "readline", "_virtualenv", "distutils", "exceptiongroup", "coverage",
)  # fmt: skip
_TRAP = """\
open({marks!r}, "a").write({name!r} + "\\n")
import torch
import helper, package, {neighbour}
from . import anything
"""
_TRAIN = """\
import torch
import socket, json, helper, package.inner
from package import inner
from conftest import *

w = torch.ones(3, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""


def set_traps(folder: Path, marks: Path) -> Path:
    """Fill a folder with traps and return a training script in it; each sprung trap adds its name to `marks`."""
    names = sorted(sys.stdlib_module_names.union(_OTHERS))
    for number, name in enumerate(names):
        text = _TRAP.format(marks=str(marks), name=name, neighbour=names[number - 1])
        # One in three is a package: those shadow as modules do.
        place = folder / name / "__init__.py" if number % 3 == 0 and name != "__init__" else folder / f"{name}.py"
        place.parent.mkdir(exist_ok=True, parents=True)
        place.write_text(text, encoding="utf-8")
    for name in ("package/__init__.py", "package/inner.py", "package/__main__.py", "src/helper.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(_TRAP.format(marks=str(marks), name=name, neighbour="os"), encoding="utf-8")
    (folder / "shadow.pth").write_text(f"import sys; open({str(marks)!r}, 'a').write('pth')\n", encoding="utf-8")
    (folder / "pyproject.toml").write_text('[tool.tapecheck]\nrun = ["helper.py"]\n', encoding="utf-8")
    script = folder / "train.py"
    script.write_text(f"open({str(marks)!r}, 'a').write('train\\n')\n{_TRAIN}", encoding="utf-8")
    return script
