"""Nothing of a checked folder is imported or executed, whatever its files are called."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.traps import set_traps
from tests.soak.wire import SERVER, Wire

SCRIPT = shutil.which("tapecheck", path=str(Path(sys.executable).parent))
LAUNCH = [
    sys.executable, "-c", f"import sys; sys.path[0] = {str(SERVER)!r}; import tapecheck.cli as c; sys.exit(c.main())",
]  # fmt: skip
EVERY_WAY = {
    "fork": [sys.executable, str(Path(__file__).with_name("started.py")), "fork"],
    "spawn": [sys.executable, str(Path(__file__).with_name("started.py")), "spawn"],
    "forkserver": [sys.executable, str(Path(__file__).with_name("started.py")), "forkserver"],
    "command": [SCRIPT] if SCRIPT else LAUNCH,
    "module": [sys.executable, "-P", "-m", "tapecheck"],
}
if os.name == "nt":
    del EVERY_WAY["fork"], EVERY_WAY["forkserver"]
if sys.version_info < (3, 11):
    del EVERY_WAY["module"]


def run(folder: Path, *command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "PYTHONPATH": str(SERVER), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, input=stdin, env=env, capture_output=True, timeout=300, check=False)


@pytest.mark.parametrize("way", EVERY_WAY)
def test_checking_a_folder_executes_nothing_of_it(tmp_path: Path, way: str) -> None:
    marks = tmp_path / "marks"
    folder = tmp_path / "trap"
    set_traps(folder, marks)
    done = run(folder, *EVERY_WAY[way], "check", "--no-fixes", "--jobs", "2", ".")
    assert not marks.exists(), marks.read_text()
    assert done.returncode == 1, done.stderr.decode()
    assert done.stdout.count(b"error[TAPE101]") == 1 and b"internal-error" not in done.stdout


def test_other_verbs_execute_nothing_of_the_folder_they_are_used_in(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    folder = tmp_path / "trap"
    set_traps(folder, marks)
    program = tmp_path / "elsewhere" / "program.py"
    program.parent.mkdir()
    program.write_text(
        "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()\nloss.backward()\n"
    )
    for arguments in (
        ["explain", "TAPE101"],
        ["check", "-", "--stdin-filename", "train.py"],
        ["check", "train.py"],
        ["run", "--tape", str(tmp_path / "kept.tape"), str(program)],
        ["check", str(tmp_path / "kept.tape")],
        ["diff", str(tmp_path / "kept.tape"), str(tmp_path / "kept.tape")],
    ):
        done = run(folder, *EVERY_WAY["command"], *arguments, stdin=program.read_bytes())
        assert not marks.exists(), (arguments, marks.read_text())
        assert done.returncode in (0, 1), (arguments, done.stderr.decode())


def test_the_server_executes_nothing_of_its_workspace(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    folder = tmp_path / "trap"
    script = set_traps(folder, marks)
    text = script.read_text(encoding="utf-8")
    document = {"textDocument": {"uri": script.as_uri()}}
    last = {"line": len(text.splitlines()) - 1, "character": 6}
    everything = {"start": {"line": 0, "character": 0}, "end": last}
    with Wire(folder, [*EVERY_WAY["command"], "serve"]) as wire:
        wire.settings = {"diagnosticMode": "workspace", "inlayHints": {"enable": True}}
        wire.start(initializationOptions={"settings": wire.settings})
        wire.open(script.as_uri(), text)
        assert "TAPE101" in json.dumps(wire.ask("textDocument/diagnostic", document))
        assert wire.ask("textDocument/hover", {**document, "position": last})
        wire.ask("textDocument/codeLens", document)
        wire.ask("textDocument/inlayHint", {**document, "range": everything})
        context: dict[str, object] = {"diagnostics": []}
        assert wire.ask("textDocument/codeAction", {**document, "range": everything, "context": context})
        asked = {"previousResultIds": [], "identifier": "tapecheck"}
        assert len(wire.ask("workspace/diagnostic", asked)["items"]) > 300
        assert wire.end() == 0
    assert not marks.exists(), marks.read_text()
