"""What can go wrong in a recorded run, one fault after the other: what is told of it, and the exit status.

    python -m tests.soak.faults [NAME...] [--python P] [--warm]

Each fault is done to a program that trains, or to what runs it, and `tapecheck run` must end within a minute, say what
is expected of it, leave no process behind and no traceback of its own. The exit status is 1 where any does not.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.record.warm import Warm

WITHIN = 300
"""Seconds after which a run counts as one that does not end."""
TRAINING = """\
import os, signal, sys, time
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fault():
{fault}


for step in range(8):
    loss = model(torch.ones(2, 3)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 4:
        open("ready", "w").close()
        fault()
print("trained", flush=True)
"""
_WAITS = "for _ in range(3000):\n    time.sleep(0.02)"


@dataclass(frozen=True)
class Fault:
    """One fault: `inside` is what the program does in its fifth iteration, `options` are given to `tapecheck run`,
    and `outside` is done to the process that records once the program is there. `told` is what standard error has to
    say, `status` the exit status; `trains` whether the program comes to its end."""

    name: str
    told: str
    status: int
    inside: str = "pass"
    options: Sequence[str] = ()
    script: str = "train.py"
    outside: Callable[[subprocess.Popen[bytes]], None] | None = None
    before: Callable[[], None] | None = None
    streams: dict[str, str] = field(default_factory=dict)
    trains: bool = False
    says: str = ""
    """What the table says, where it is not what stands on standard error."""


def _send(number: int) -> Callable[[subprocess.Popen[bytes]], None]:
    return lambda process: process.send_signal(number)


def _send_all(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


FAULTS = (
    Fault("nothing: the program trains and ends", "the script ran to its end", 0, trains=True),
    Fault(
        "an exception of the program's",
        "the script ended with an exception: ValueError: own",
        3,
        "raise ValueError('own')",
    ),
    Fault("`sys.exit(3)` in the program", "exit code 3", 0, "sys.exit(3)"),
    Fault(
        "`os._exit(7)` in the program", "the script died: the process ended itself with exit code 7", 3, "os._exit(7)"
    ),
    Fault(
        "the program crashes (SIGSEGV)",
        "the script died: the process was ended by SIGSEGV",
        3,
        "import ctypes\nctypes.string_at(0)",
    ),
    Fault("the program aborts (SIGABRT)", "the script died: the process was ended by SIGABRT", 3, "os.abort()"),
    Fault(
        "the program is killed, as the system does when memory runs out",
        "the script died: the process was ended by SIGKILL",
        3,
        "os.kill(os.getpid(), signal.SIGKILL)",
    ),
    Fault("torch cannot allocate", "the memory ran out at train.py:", 3, "torch.empty(1 << 60)"),
    Fault("Python cannot allocate", "the script ended with an exception: MemoryError", 3, "bytearray(1 << 60)"),
    Fault("endless recursion", "the script ended with an exception: RecursionError", 3, "fault()"),
    Fault(
        "a child of the program is killed",
        "the script ran to its end",
        0,
        "child = os.fork()\nif child == 0:\n    os.kill(os.getpid(), signal.SIGKILL)\nos.waitpid(child, 0)",
        trains=True,
    ),
    Fault(
        "the program closes every open file",
        "the script ran to its end",
        0,
        "os.closerange(3, 256)",
        trains=True,
    ),
    Fault("the program takes Python's tracing", "the script ran to its end", 0, "sys.settrace(None)", trains=True),
    Fault(
        "the program's directory is deleted under it",
        "the script ran to its end",
        0,
        "import shutil\nos.mkdir('gone')\nos.chdir('gone')\nshutil.rmtree(os.getcwd())",
        trains=True,
    ),
    Fault(
        "no descriptors are left",
        "the script ran to its end",
        0,
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))",
        trains=True,
    ),
    Fault("`--timeout` is reached", "the script was stopped after ", 3, _WAITS, ("--timeout", "15")),
    Fault("Ctrl+C (SIGINT to the process group)", "interrupted", 130, _WAITS, outside=_send_all),
    Fault(
        "Ctrl+C that the program ignores, `--grace 1`",
        "interrupted",
        130,
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nopen('ready', 'w').close()\n" + _WAITS,
        ("--grace", "1"),
        outside=_send_all,
    ),
    Fault("SIGTERM", "", 143, _WAITS, outside=_send(signal.SIGTERM)),
    Fault("SIGHUP (the terminal is closed)", "", 129, _WAITS, outside=_send(signal.SIGHUP)),
    Fault(
        "Tapecheck itself is killed (SIGKILL)",
        "",
        -9,
        _WAITS,
        outside=_send(signal.SIGKILL),
        says="nothing; the program ends, too",
    ),
    Fault("no room for the tape (files of at most 1 kB)", "could not be written", 3, trains=True, before=_small_files),
    Fault(
        "a tape in a folder that takes no files",
        "the tape cannot be written to ",
        2,
        options=("--tape", "/proc/run.jsonl"),
    ),
    Fault("a tape where a device is", "not a regular file", 2, options=("--tape", "/dev/null")),
    Fault("a report on a full device", "No space left on device", 2, options=("-o", "/dev/full"), trains=True),
    Fault("standard output is full", "No space left on device", 2, streams={"stdout": "/dev/full"}),
    Fault("standard output is closed by its reader", "", 1, streams={"stdout": "|"}),
    Fault("standard output is closed from the start", "the script ran to its end", 0, streams={"stdout": "-"}),
    Fault("standard error is closed from the start", "", 0, streams={"stderr": "-"}, trains=True),
    Fault("there is no such script", "no such file", 2, script="none.py"),
    Fault(
        "there is no such interpreter", "does not exist or is not executable", 2, options=("--python", "/none/python")
    ),
)


@dataclass(frozen=True)
class Seen:
    """What came of a fault: the lines that Tapecheck wrote, the exit status, and what is wrong with that."""

    told: str
    status: int | None
    wrong: str


def tried(fault: Fault, python: str = sys.executable) -> Seen:
    """Do one fault to a run in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        folder = Path(name)
        indented = "\n".join("    " + line for line in fault.inside.splitlines())
        (folder / "train.py").write_text(TRAINING.format(fault=indented))
        chosen = [] if "--python" in fault.options else ["--python", python]
        command = [sys.executable, "-P", "-m", "tapecheck", "run", *chosen, *fault.options, fault.script]
        if sys.version_info < (3, 11):
            command.remove("-P")
        out, errors = folder / "out.txt", folder / "errors.txt"
        said = out.open("wb")
        failed = errors.open("wb")
        closed = [number for number, stream in ((1, "stdout"), (2, "stderr")) if fault.streams.get(stream) == "-"]

        def begin() -> None:
            for number in closed:
                os.close(number)
            if fault.before is not None:
                fault.before()

        where: int | object = said
        reader = -1
        if fault.streams.get("stdout") == "|":
            reader, writer = os.pipe()
            where = writer
            os.close(reader)
        elif fault.streams.get("stdout", "-") != "-":
            where = open(fault.streams["stdout"], "wb")  # noqa: SIM115
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=where, stderr=failed, start_new_session=True,
                preexec_fn=begin, env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", "TMPDIR": name},
            )  # type: ignore[call-overload]  # fmt: skip
        finally:
            said.close()
            failed.close()
            if isinstance(where, int):
                os.close(where)
            elif where is not said:
                where.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + WITHIN
        if fault.outside is not None:
            while not (folder / "ready").exists() and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.2)
            fault.outside(process)
        status: int | None
        try:
            status = process.wait(max(deadline - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        told = errors.read_text(errors="replace")
        printed = out.read_text(errors="replace")
        return Seen(_shown(told, fault.told), status, _wrong(fault, status, told, printed, folder))


def _shown(told: str, wanted: str) -> str:
    """Tapecheck's own lines up to the one that is expected, without figures that differ from run to run."""
    lines = [line.removeprefix("tapecheck: ") for line in told.splitlines() if line.startswith("tapecheck: ")]
    last = next((number for number, line in enumerate(lines) if wanted in line), 0)
    text = re.sub(r", \d+(\.\d+)? (s|min)\b", "", "; ".join(lines[: last + 1]))
    return re.sub(r"/tmp/\S+?/(?=\w+\b)", "", text)


def _wrong(fault: Fault, status: int | None, told: str, printed: str, folder: Path) -> str:
    if status is None:
        return f"did not end within {WITHIN} s"
    wrong = []
    if status != fault.status:
        wrong.append(f"exit status {status} instead of {fault.status}")
    if fault.told not in told:
        wrong.append(f"{fault.told!r} is not told: {told[-300:]!r}")
    if "tapecheck/cli" in told or "internal error" in told:
        wrong.append(f"an error of its own: {told[-600:]!r}")
    if fault.trains and "stdout" not in fault.streams and "trained" not in printed:
        wrong.append(f"the program did not come to its end: {printed!r}, {told[-300:]!r}")
    left = _left(folder)
    if left:
        wrong.append(f"left behind: {left}")
    return "; ".join(wrong)


def _left(folder: Path) -> list[str]:
    """The processes that still work in a folder, after ten seconds."""
    deadline = time.monotonic() + 10
    while True:
        left = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd").startswith(str(folder)):
                    left.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:80])
            except OSError:
                continue
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def row(fault: Fault, seen: Seen) -> str:
    """A line of the table in docs."""
    told = fault.says or seen.told.replace("|", "\\|") or "nothing"
    return f"| {fault.name} | {told} | {seen.status} |"


def main() -> int:
    """Print the table; return whether anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the name of a fault (default: all)")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the programs")
    parser.add_argument("--warm", action="store_true", help="fork the programs from a process that has torch loaded")
    options = parser.parse_args()
    # What a shell starts in the background, or nohup, begins with these ignored, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not options.warm:
        return table(options.names, options.python)
    with tempfile.TemporaryDirectory() as folder, Warm(options.python, folder) as warm:
        return table(options.names, warm.python)


def table(names: Sequence[str], python: str) -> int:
    """Print the table of the faults that have one of some texts in their names, of all where there are none."""
    wanted = [one for one in FAULTS if not names or any(name in one.name for name in names)]
    print("| fault | what is told | exit status |\n|---|---|---|", flush=True)
    failed = []
    for fault in wanted:
        seen = tried(fault, python)
        print(row(fault, seen), flush=True)
        if seen.wrong:
            failed.append(fault.name)
            print(f"wrong: {fault.name}: {seen.wrong}", file=sys.stderr, flush=True)
    print(f"{len(wanted)} faults, {len(failed)} not as expected", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
