"""What coding agents call: check, explain, fix, run and graph, each a command of this program in a process of its own.

What a tool finds, its limits and its exit status are those of the command line, and what a recorded program prints
cannot get into the protocol that carries the answer.
"""

from __future__ import annotations

import inspect
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SECONDS = 900
_FAILED = 2
_LINES = 40
"""How many lines of what a command said are passed on, the last ones."""
_LETTERS = 400
"""How much of each of them."""
PROGRESS_EVERY = 0.5
"""Seconds between two lines in which a command says how far it is."""
MARK = "TAPECHECK_PROGRESS"
"""The environment variable that has what such a line begins with: a word of this call, which no program prints."""
_FILES = 50
"""Of more files than this a report names those alone of which there is something to say."""
_ROOT = str(Path(__file__).parents[1])
"""Where this package lies: an extension brings it along, and the Python that runs it does not know."""


_WATCHED = """
def watch(handle):
    os.read(handle, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=watch, args=({handle},), daemon=True).start()
"""
"""Ends a command once the process that started it is gone, however it went: nothing holds the pipe's other end then."""


class Refused(Exception):
    """What a tool was asked for cannot be done; the message says why."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools; paths are relative to `folder`, to the working directory where none is given.

    They raise Refused where they cannot do what they were asked for. `progress` is told how much is done of how much,
    and in which words, while `check` and `run` work.
    """

    folder: str | None = None
    progress: Callable[[int, int | None, str], None] | None = field(default=None, compare=False)
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list, init=False, repr=False, compare=False)

    def stop(self) -> None:
        """End the commands that are running, with the programs that they run."""
        for process in list(self._running):
            process.terminate()

    def check(
        self, paths: list[str], select: list[str] | None = None, ignore: list[str] | None = None
    ) -> dict[str, object]:
        """Check Python files, notebooks or folders; nothing of them is executed.

        `select` and `ignore` are rule codes (TAPE101), prefixes (TAPE2) or names. Returns the findings with message,
        place, related lines, help and verified fixes, the files that were checked, what could not be read, and the
        limits that ended an analysis. Of many files, `files` has those with a finding or a limit; `files_left_out` says
        how many more there were.
        """
        gone = [path for path in paths if not _exists(self.folder, path)]
        if gone:
            raise Refused("\n".join(f"{path}: no such file or folder" for path in gone))
        return _in_short(self._report(["check", *_rules(select, ignore), "--", *map(_file, paths)]))

    def explain(self, rule: str) -> str:
        """Return the page of a rule, by its code (TAPE101) or name: why it is a mistake, how to mend it, examples."""
        return self._text(["rule", rule, "--output-format", "markdown"])

    def fix(
        self,
        path: str,
        line: int,
        alternative: int = 1,
        unsafe: bool = False,
        verify: bool = False,
        write: bool = False,
    ) -> dict[str, object]:
        """Make one fix of what is found on a line of a file, or, with write=false, return it as a patch.

        `alternative` counts the fixes of the finding as `check` lists them: 1 is `fix`, 2 the first of `alternatives`.
        `unsafe` allows one that changes what is learned. `verify` executes the program before and after, and does not
        write what fails; it goes with write=true.
        """
        place = f"{_file(path)}:{line}"
        if not Path(self.folder or "", path).is_file():
            raise Refused(f"{path}: no such file")
        if line < 1:
            raise Refused(f"{place}: lines count from 1")
        if verify and not write:
            raise Refused("verify=true goes with write=true: nothing is run for a patch alone")
        chosen = [place, *(("--alternative", str(alternative)) if alternative != 1 else ())]
        chosen += ["--unsafe-fixes"] if unsafe else []
        if write:
            return self._fixed(["check", "--fix", *(["--verify"] if verify else []), *chosen])
        done = self._command(["check", "--diff", *chosen])
        if done.returncode >= _FAILED or not done.stdout:
            raise Refused(_reason(done))
        return {"patch": done.stdout, "messages": _last_lines(done.stderr)}

    def _fixed(self, command: list[str]) -> dict[str, object]:
        """Return the report of a command that writes a fix; raises Refused where it has written none."""
        report = self._report(command)
        match report:
            case {"fixed": [], "not_fixed": [_, *_] as reasons}:
                raise Refused(_as_arguments("\n".join(map(str, reasons))))
        unwritten = [one for one in _rows(report, "problems") if one["code"] == "io-error"]
        if unwritten:
            raise Refused("\n".join(f"{one['filename']}: {one['message']}" for one in unwritten))
        return report

    def run(
        self,
        script: str,
        arguments: list[str] | None = None,
        python: str | None = None,
        max_iterations: int = 20,
        timeout_seconds: float = 300.0,
    ) -> dict[str, object]:
        """Execute a script under the recorder, with all its effects, and return its findings with what the run showed.

        `evidence.verdict` of each is confirmed, refuted, not-reached or found-by-run, null where the run is
        inconclusive. `python` is an interpreter that has torch; by default that of the project is looked for. The run
        ends after `max_iterations` iterations of the training loop or `timeout_seconds`.
        """
        chosen = ["--python", python] if python else []
        if max_iterations < 1 or not timeout_seconds > 0:
            raise Refused("max_iterations and timeout_seconds must be more than 0")
        limits = ["--max-iterations", str(max_iterations), "--timeout", str(timeout_seconds)]
        return self._report(["run", *chosen, *limits, _file(script), *(arguments or [])])

    def graph(self, path: str, line: int | None = None) -> str:
        """Return an SVG picture of the graphs that backward calls walk, by source line; nothing is executed."""
        return self._text(["graph", _file(path), *(["--line", str(line)] if line else [])])

    def _text(self, arguments: Sequence[str]) -> str:
        done = self._command(arguments)
        if done.returncode:
            raise Refused(_reason(done))
        return done.stdout

    def _report(self, arguments: Sequence[str]) -> dict[str, object]:
        verb, *rest = arguments
        done = self._command([verb, "--output-format", "json-report", *rest])
        if not done.stdout.strip():
            raise Refused(_reason(done))
        report: dict[str, object] = json.loads(done.stdout)
        return {**report, "exit_status": done.returncode, "messages": _last_lines(done.stderr)}

    def _command(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of this program; its own standard input is empty: ours is the protocol."""
        # The language server starts without the recorder.
        from tapecheck.record.run import lifeline

        # A module of the working directory must not be imported in the place of one of ours.
        paths = f"sys.path[:] = [{_ROOT!r}, *filter(None, sys.path)]"
        with lifeline() as handle:
            watched = "" if handle is None else _WATCHED.format(handle=handle)
            start = (
                f"import os, signal, sys, threading\n{watched}\n{paths}\n"
                "from tapecheck.cli.main import main; sys.exit(main())"
            )
            if any("\0" in argument for argument in arguments):
                raise Refused("an argument has a character with the code 0")
            mark = f"tapecheck-{secrets.token_hex(8)} "
            process = subprocess.Popen(
                [sys.executable, "-c", start, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, cwd=self.folder, pass_fds=() if handle is None else (handle,),
                env={**os.environ, MARK: mark if self.progress is not None else ""},
            )  # fmt: skip
            self._running.append(process)
            late = threading.Event()

            def end() -> None:
                late.set()
                process.terminate()

            limit = threading.Timer(_SECONDS, end)
            limit.daemon = True
            limit.start()
            try:
                out, said = self._both(process, mark.encode())
            finally:
                limit.cancel()
                self._running.remove(process)
        if late.is_set():
            return subprocess.CompletedProcess([], _FAILED, "", f"stopped after {_SECONDS} seconds")
        return subprocess.CompletedProcess([], process.returncode, _decoded(out), _decoded(said))

    def _both(self, process: subprocess.Popen[bytes], mark: bytes) -> tuple[bytes, bytes]:
        """Return what a command writes, and what it says, without how far it is: that is passed on as it comes."""
        assert process.stdout is not None and process.stderr is not None
        out: list[bytes] = []
        # What is read by this thread is told by it: only a thread of the protocol's may call it.
        reader = threading.Thread(target=lambda stream: out.append(stream.read()), args=(process.stdout,), daemon=True)
        reader.start()
        said: list[bytes] = []
        with process.stderr:
            for line in process.stderr:
                before, found, told = line.partition(mark)
                said.append(before)
                if found and self.progress is not None:
                    # Another thread of the command may have begun a line of its own behind it.
                    row, end = json.JSONDecoder().raw_decode(_decoded(told))
                    said.append(_decoded(told)[end:].removeprefix("\n").encode())
                    self.progress(*row)
        reader.join()
        process.stdout.close()
        process.wait()
        return b"".join(out), b"".join(said)


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\r\n", "\n")


def _last_lines(text: str) -> list[str]:
    """Return the last lines of what a command said: of one that was written over, as a progress bar, its last state."""
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")] if text else []
    return [_shortened(line) for line in lines[-_LINES:]]


def _shortened(line: str) -> str:
    return line if len(line) <= _LETTERS else f"{line[:_LETTERS]}… ({len(line)} characters)"


def call_tool(name: str, arguments: str, folder: str | None) -> str:
    """Return what a tool answers, as text or JSON, given its arguments as a JSON object; so is an error."""
    tools = Tools(folder)
    known: dict[str, Callable[..., object]] = {
        "check": tools.check, "explain": tools.explain, "fix": tools.fix, "run": tools.run, "graph": tools.graph,
    }  # fmt: skip
    tool = known.get(name)
    if tool is None:
        return json.dumps({"error": f"no tool is called {name!r}"})
    try:
        given = json.loads(arguments)
        inspect.signature(tool).bind(**given)
    except (TypeError, ValueError) as error:
        return json.dumps({"error": f"{name}: {error}"})
    try:
        answer = tool(**given)
    except Refused as refused:
        return json.dumps({"error": str(refused)})
    return answer if isinstance(answer, str) else json.dumps(answer)


def _rules(select: list[str] | None, ignore: list[str] | None) -> list[str]:
    return [*(["--select", ",".join(select)] if select else []), *(["--ignore", ",".join(ignore)] if ignore else [])]


def _file(path: str) -> str:
    """Return a path that no command takes for an option or for standard input, which is empty."""
    return f"./{path}" if path.startswith("-") else path


def _exists(folder: str | None, path: str) -> bool:
    """Return whether there is something at a path; one that no file can have is refused where it is used."""
    return "\0" in path or Path(folder or "", path).exists()


def _rows(report: Mapping[str, object], key: str) -> list[dict[str, object]]:
    """Return the objects of a list in a report."""
    listed = report[key]
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _in_short(report: dict[str, object]) -> dict[str, object]:
    """Return a report without the many files of which there is nothing to say."""
    files = _rows(report, "files")
    if len(files) <= _FILES:
        return report
    told = {finding["filename"] for finding in _rows(report, "findings")}
    named = [file for file in files if file["filename"] in told or not file["complete"]]
    return {**report, "files": named, "files_left_out": len(files) - len(named)}


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    return _as_arguments(done.stderr.strip()) or f"ended with status {done.returncode}"


def _as_arguments(said: str) -> str:
    """Return what a command says of an option in the words of the tool that ran it."""
    return said.replace("--unsafe-fixes", "unsafe=true")
