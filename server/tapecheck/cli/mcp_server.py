"""`tapecheck mcp`: a Model Context Protocol server on standard input and output, for coding agents.

Each tool is a command of this program in a process of its own: what it finds, its limits and its exit status are those
of the command line, and what a recorded program prints cannot get into the protocol.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tapecheck.cli.shared import FAILED, NOTHING_FOUND, UsageError
from tapecheck.version import __version__

_INSTRUCTIONS = """\
Tapecheck finds mistakes with PyTorch's autograd graph (second backward, graphs kept alive, gradients that are cut) in
Python files and notebooks without executing them. Work in a loop: `check` the files, `explain` a rule that is not
clear, `fix` one finding by its file and line (first with write=false: it returns the patch), then `check` again and
`run` the script to see that the finding no longer happens. `run`, and `fix` with verify=true, execute the user's
program; the other tools execute nothing. A finding that says "possible" holds on some paths only. `fix.applicability`
is "safe" where training stays as it is; an unsafe fix changes what is learned: ask the user first."""
_SECONDS = 900


def serve_tools() -> int:
    """Serve until the client closes standard input; raises UsageError without the package `mcp`."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise UsageError("`tapecheck mcp` needs the package mcp, 2 or later: pip install mcp") from error
    server = MCPServer("tapecheck", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
    reads = ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=False)
    writes = ToolAnnotations(readOnlyHint=False, destructiveHint=False, openWorldHint=False)
    executes = ToolAnnotations(readOnlyHint=False, destructiveHint=True, openWorldHint=True)
    server.tool(title="Check files without executing them", annotations=reads)(check)
    server.tool(title="Explain a rule", annotations=reads)(explain)
    server.tool(title="Fix one finding", annotations=writes)(fix)
    server.tool(title="Run a script and confirm or refute its findings", annotations=executes)(run)
    server.tool(title="Draw the graphs that backward calls walk", annotations=reads)(graph)
    server.run("stdio")
    return NOTHING_FOUND


def check(paths: list[str], select: list[str] | None = None, ignore: list[str] | None = None) -> dict[str, Any]:
    """Check Python files, notebooks or folders; nothing of them is executed.

    `select` and `ignore` are rule codes (TAPE101), prefixes (TAPE2) or names. Returns the findings with message, place,
    related lines, help and verified fixes, the files that were checked, and the limits that ended an analysis.
    """
    return _report(["check", *_rules(select, ignore), "--", *paths])


def explain(rule: str) -> str:
    """Return the page of a rule, by its code (TAPE101) or name: why it is a mistake, how to mend it, examples."""
    done = _command(["rule", rule, "--output-format", "markdown"])
    return done.stdout if done.returncode == 0 else _refused(done)


def fix(
    path: str, line: int, alternative: int = 1, unsafe: bool = False, verify: bool = False, write: bool = False
) -> dict[str, Any]:
    """Make one fix of what is found on a line of a file, or, with write=false, return it as a patch.

    `alternative` counts the fixes of the finding as `check` lists them: 1 is `fix`, 2 the first of `alternatives`.
    `unsafe` allows one that changes what is learned. `verify` executes the program before and after, and does not write
    what fails; it goes with write=true.
    """
    place = f"{path}:{line}"
    if not Path(path).is_file():
        return {"error": f"{path}: no such file"}
    chosen = [place, *(("--alternative", str(alternative)) if alternative != 1 else ())]
    chosen += ["--unsafe-fixes"] if unsafe else []
    if write:
        return _report(["check", "--fix", *(["--verify"] if verify else []), *chosen])
    done = _command(["check", "--diff", *chosen])
    return {"patch": done.stdout, "messages": done.stderr.splitlines()}


def run(
    script: str,
    arguments: list[str] | None = None,
    python: str | None = None,
    max_iterations: int = 20,
    timeout_seconds: float = 300.0,
) -> dict[str, Any]:
    """Execute a script under the recorder, with all its effects, and return its findings with what the run showed.

    `evidence.verdict` of each is confirmed, refuted, not-reached or found-by-run, null where the run is inconclusive.
    `python` is an interpreter that has torch; by default that of the project is looked for. The run ends after
    `max_iterations` iterations of the training loop or `timeout_seconds`.
    """
    chosen = ["--python", python] if python else []
    limits = ["--max-iterations", str(max_iterations), "--timeout", str(timeout_seconds)]
    # A name that begins with a dash is no option of ours.
    return _report(["run", *chosen, *limits, str(Path(script).absolute()), *(arguments or [])])


def graph(path: str, line: int | None = None) -> str:
    """Return an SVG picture of the graphs that a program's backward calls walk, by source line; nothing is executed."""
    done = _command(["graph", path, *(["--line", str(line)] if line else [])])
    return done.stdout if done.returncode == 0 else _refused(done)


def _rules(select: list[str] | None, ignore: list[str] | None) -> list[str]:
    return [*(["--select", ",".join(select)] if select else []), *(["--ignore", ",".join(ignore)] if ignore else [])]


def _report(arguments: Sequence[str]) -> dict[str, Any]:
    verb, *rest = arguments
    done = _command([verb, "--output-format", "json-report", *rest])
    if not done.stdout.strip():
        return {"error": _refused(done)}
    report: dict[str, Any] = json.loads(done.stdout)
    return {**report, "exit_status": done.returncode, "messages": done.stderr.splitlines()[-40:]}


def _command(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command of this program; its own standard input is empty: ours is the protocol."""
    # A module of the working directory must not be imported in the place of one of ours.
    start = "import sys; sys.path[:] = filter(None, sys.path); from tapecheck.cli.main import main; sys.exit(main())"
    try:
        return subprocess.run(
            [sys.executable, "-c", start, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            encoding="utf-8", errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess([], FAILED, "", f"stopped after {_SECONDS} seconds")


def _refused(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr.strip() or f"ended with status {done.returncode}"
