"""Which Python runs a script where none was named."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import tapecheck
from tapecheck.record.interpreter import find_interpreter
from tests.cases import under_torch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="environments have other files there")


def environment(prefix: Path) -> str:
    """Make the files by which an environment is known; nothing in it can be started."""
    (prefix / "bin").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text("")
    python = prefix / "bin" / "python"
    python.write_text("")
    python.chmod(0o755)
    return str(python)


def test_the_first_environment_that_has_torch(tmp_path: Path) -> None:
    active, beside, above = (environment(tmp_path / name) for name in ("active", "a/b/venv", "a/.venv"))
    outside = environment(tmp_path / ".venv")
    on_path = environment(tmp_path / "system")
    (tmp_path / "a" / ".git").mkdir()
    env = {"VIRTUAL_ENV": str(tmp_path / "active"), "PATH": str(tmp_path / "system" / "bin")}

    def found(*having: str) -> tuple[str, str]:
        chosen = find_interpreter(str(tmp_path / "a" / "b"), env, lambda python: python in having)
        return chosen.python, chosen.found

    everything = (active, beside, above, outside, on_path)
    assert found(sys.executable, *everything) == (sys.executable, ""), "its own, where that has torch"
    assert found(*everything) == (active, "the active environment (VIRTUAL_ENV)")
    assert found(*everything[1:]) == (beside, "the project's environment")
    assert found(*everything[2:]) == (above, "the project's environment")
    assert found(*everything[3:]) == (on_path, "the path"), "not above the repository"
    assert found() == (sys.executable, "")
    nothing = find_interpreter(str(tmp_path / "a" / "b"), env, lambda python: False)
    assert nothing.others == (active, beside, above, on_path)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_a_script_runs_in_its_project_s_environment(tmp_path: Path) -> None:
    """Tapecheck is installed without torch, as by pip alone; the project has its own environment with torch."""
    own, project = tmp_path / "tools", tmp_path / "project"
    for prefix in (own, project / ".venv"):
        venv.create(prefix, with_pip=False, symlinks=True)
    import pathspec

    packages = Path(sysconfig.get_path("purelib", vars={"base": str(own)}))
    for package in (pathspec, tapecheck):
        (packages / package.__name__).symlink_to(Path(str(package.__file__)).parent)
    if sys.version_info < (3, 11):
        import tomli

        (packages / "tomli").symlink_to(Path(str(tomli.__file__)).parent)
    import torch

    libraries = Path(sysconfig.get_path("purelib", vars={"base": str(project / ".venv")}))
    (libraries / "torch.pth").write_text(str(Path(torch.__file__).parents[1]))
    (project / "train.py").write_text(
        "import sys, torch\nprint(sys.prefix)\nw = torch.ones(2, requires_grad=True)\n(w * w).sum().backward()\n"
    )
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    command = [str(own / "bin" / "python"), "-P" if sys.version_info >= (3, 11) else "-s", "-m", "tapecheck", "run"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
        )

    done = run("project/train.py")
    python = project / ".venv" / "bin" / "python"
    assert done.returncode == 0, done.stderr
    assert f"running with {python}, the project's environment" in done.stderr
    assert done.stdout.splitlines()[0] == str(project / ".venv")
    assert "running with" not in run("--quiet", "project/train.py").stderr
    assert "running with" not in run("--python", str(python), "project/train.py").stderr
