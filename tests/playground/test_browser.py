"""The playground clicked through in Chromium, on the site as it is built for readers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

CHROMIUM = ["chromium", "chromium-browser", "google-chrome"]


def missing() -> str | None:
    """What is missing for this test, None where all is there."""
    if find_spec("mkdocs") is None:
        return "mkdocs is not installed: pip install '.[docs]'"
    if shutil.which("node") is None:
        return "Node.js is not installed"
    if not (ROOT / "node_modules" / "pyodide").is_dir():
        return "Pyodide is not installed: npm ci"
    if not os.environ.get("CHROMIUM") and not any(Path("/usr/bin", name).exists() for name in CHROMIUM):
        return "there is no Chromium: set CHROMIUM, or install the distribution's package"
    return None


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_the_playground_works_in_a_browser(tmp_path: Path) -> None:
    def run(*command: str, **variables: str) -> None:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1", **variables},
        )
        assert done.returncode == 0, done.stdout

    run("node", "playground/build.mjs")
    run(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site"))
    run("node", "--test", "tests/playground/playground.test.mjs", SITE=str(tmp_path / "site"))
