#!/usr/bin/env python3
"""Hold the verdicts of recorded runs against measured truth: recall and precision, rule by rule.

    python tests/cases/recorded.py                     # the programs beside this file
    python tests/cases/recorded.py --misses            # and every miss, false alarm and undecided finding
    python tests/cases/recorded.py --alone             # without the dry run: what the run alone finds
    python tests/cases/recorded.py --device cuda       # their tensors are made on a GPU, as far as they go there

Every program is run under the recorder with the findings of the dry run; what is confirmed or found by the run
counts as its verdict. A fixed program is given the findings of the program it mends, too, moved to where those lines
are now: a run that confirms one of them is wrong. It needs torch. Each program runs in a process of its own, forked
from one that has torch loaded, since importing torch takes longer than most programs.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import difflib
import gc
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "server")]

from tapecheck.check import check
from tapecheck.record import judge
from tapecheck.record.evidence import asks_for_levels, lines_of, passes_of
from tapecheck.record.run import PROBE
from tapecheck.rules.finding import Finding
from tapecheck.source import read_source
from tapecheck.tape import End, Span, Tape, read_tape
from tests.cases.score import PROGRAMS, Score, programs_in, score

POSITIVE = ("confirmed", "found-by-run")
_SECONDS = 120
# What torch says where a program mixes devices, draws from a generator of another one or asks for numpy's memory.
_TORN = ("on the same device", "device type", "same device as", "type tensor to numpy", "CPU tensor")


@dataclass(slots=True)
class Recorded:
    """A program, the tape of its run, and its findings with their evidence."""

    program: Path
    tape: Tape
    findings: list[Finding] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What the run says is so, in the shape that `score` reads."""
        return [
            {"name": item.name, "location": {"row": item.span.line}, "message": item.message}
            for item in self.findings
            if item.evidence is not None and item.evidence.verdict in POSITIVE and not self._rightly(item)
        ]

    def _rightly(self, item: Finding) -> bool:
        """Whether a run tells of parameters without a gradient that rightly get none: unused layers, a bias whose
        derivative is taken."""
        truth = self.program.with_name(self.program.name.replace(".fixed.py", ".py")).with_suffix(".json")
        known = json.loads(truth.read_text()).get("params_without_grad_ok", 0)
        told = item.evidence.measured.get("parameters", ()) if item.evidence is not None else ()
        return item.severity == "info" and item.name == "gradient-cut" and 0 < len(told) <= known


def record_all(programs: Sequence[Path], *, alone: bool = False, device: str = "", jobs: int = 1) -> list[Recorded]:
    """Run programs under the recorder and judge the findings of their dry run; none where `alone`.

    `device` is where they make tensors that name no device, by `torch.set_default_device`; `jobs` run at once.
    """
    with tempfile.TemporaryDirectory() as folder:
        tapes = [Path(folder) / f"{number}.jsonl" for number in range(len(programs))]
        findings = [[] if alone else _findings(program) for program in programs]
        requests = [
            (str(program), str(tape), _watched(found))
            for program, tape, found in zip(programs, tapes, findings, strict=True)
        ]
        with multiprocessing.get_context("spawn").Pool(jobs) as pool:
            pool.starmap(_run_all, [(requests[start::jobs], device) for start in range(jobs)])
        recorded = []
        for program, path, found in zip(programs, tapes, findings, strict=True):
            with path.open() as file:
                tape = read_tape(file)
            recorded.append(Recorded(program, tape, judge(found, tape)))
        return recorded


def verdicts(recorded: Iterable[Recorded]) -> Score:
    """Hold what the runs say against the truth beside the programs."""
    everything = list(recorded)
    return score([item.program for item in everything], {item.program.name: item.rows for item in everything})


def related(recorded: Iterable[Recorded]) -> list[str]:
    """Where a finding of a program that raises does not name a line that has a part in it."""
    problems = []
    for item in recorded:
        truth = item.program.with_suffix(".json")
        if item.program.name.endswith(".fixed.py") or json.loads(truth.read_text())["outcome"] != "raises":
            continue
        for expected in json.loads(truth.read_text())["findings"]:
            mine = [
                found for found in item.findings
                if found.name == expected["rule"] and expected["line"] <= found.span.line
                <= (expected.get("end_line") or expected["line"])
            ]  # fmt: skip
            named = {
                row
                for found in mine
                for label in (*found.labels, found)
                for row in range(label.span.line, max(label.span.line, label.span.end_line) + 1)
            }
            for key, lines in expected.get("related_lines", {}).items():
                if mine and not named & set(lines):
                    problems.append(f"{item.program.name}:{expected['line']} {expected['rule']}: no {key} {lines}")
    return problems


def _findings(program: Path) -> list[Finding]:
    findings = check(read_source(str(program))).findings
    broken = program.with_name(program.name.replace(".fixed.py", ".py"))
    if broken == program:
        return findings
    old, new = (path.read_text().splitlines() for path in (broken, program))
    rows = {
        row + 1: max(min(start + row - first, end - 1), start) + 1
        for _, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        for row in range(first, last)
    }

    def moved(span: Span) -> Span:
        line, end_line = rows.get(span.line, span.line), rows.get(span.end_line, span.end_line)
        return dataclasses.replace(span, file=str(program), line=line, end_line=end_line)

    for finding in check(read_source(str(broken))).findings:
        labels = tuple(dataclasses.replace(label, span=moved(label.span)) for label in finding.labels)
        findings.append(dataclasses.replace(finding, span=moved(finding.span), labels=labels))
    return findings


def _watched(findings: Iterable[Finding]) -> list[str]:
    """Return the probe's options for findings."""
    found = list(findings)
    levels = [] if asks_for_levels(found) else ["--levels", "0"]
    return levels + [
        part
        for option, places in (("--watch", lines_of(found)), ("--passes", passes_of(found)))
        for file, line in sorted(places)
        for part in (option, f"{Path(file).absolute()}:{line}")
    ]


def _run_all(requests: Sequence[tuple[str, str, list[str]]], device: str = "") -> None:
    """Run each program under the probe in a forked child of this process."""
    import torch
    import torch._dynamo  # the first optimizer imports it: seconds, paid once here instead of in every child
    import torch.func
    import torch.utils.checkpoint

    torch.set_num_threads(1)
    torch.distributions.Categorical(torch.ones(2))
    # What torch's modules made is no program's: collections that leave it out take milliseconds.
    gc.collect()
    gc.freeze()
    for script, tape, watch in requests:
        child = os.fork()
        if not child:
            try:
                if device:
                    torch.set_default_device(device)
                _run(script, tape, watch)
            finally:
                os._exit(1)
        os.waitpid(child, 0)


def _run(script: str, tape: str, watch: Sequence[str]) -> None:
    import atexit
    import runpy

    os.chdir(Path(tape).parent)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.argv = [str(PROBE), "--tape", tape, "--timeout", str(_SECONDS), *watch, script]
    try:
        runpy.run_path(str(PROBE), run_name="__main__")
    except SystemExit:
        pass
    # A forked child ends without Python's own end, at which the probe closes its tape.
    atexit._run_exitfuncs()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=PROGRAMS, help="programs with their truth")
    parser.add_argument("--misses", action="store_true", help="list every miss, false alarm and undecided finding")
    parser.add_argument("--alone", action="store_true", help="judge by the run alone")
    parser.add_argument("--only", default="", metavar="TEXT", help="only programs with this in their name")
    parser.add_argument("--device", default="", metavar="D", help="where tensors are made that name no device")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="programs that run at once")
    options = parser.parse_args()
    programs = [program for program in programs_in(options.folder) if options.only in program.name]
    recorded = record_all(programs, alone=options.alone, device=options.device, jobs=options.jobs)
    if options.device:
        elsewhere = [item for item in recorded if not _at_home(item)]
        recorded = [item for item in recorded if _at_home(item)]
        print(f"{len(elsewhere)} of {len(programs)} programs use tensors of the CPU beside others and are left out")
    result, raising = verdicts(recorded), [item for item in recorded if raises(item.program)]
    problems = related(recorded)
    if options.misses:
        print("\n".join([*result.lines, *problems, *_undecided(recorded)]))
    print(result.table())
    found = verdicts(raising).total
    print(f"programs that raise: {found.hits} of {found.hits + found.misses} findings, {found.alarms} false alarms")
    print(f"lines with a part in them that no label names: {len(problems)}")
    given = collections.Counter(
        item.evidence.verdict if item.evidence else "nothing said" for run in recorded for item in run.findings
    )
    print(", ".join(f"{verdict} {count}" for verdict, count in sorted(given.items())))


def raises(program: Path) -> bool:
    """Whether a program is one that ends with an exception of autograd's."""
    if program.name.endswith(".fixed.py"):
        return False
    return bool(json.loads(program.with_suffix(".json").read_text())["outcome"] == "raises")


def _at_home(item: Recorded) -> bool:
    """Whether a program that was moved to another device could run there."""
    end = item.tape.events[-1]
    return not (isinstance(end, End) and any(sign in end.detail for sign in _TORN))


def _undecided(recorded: Iterable[Recorded]) -> list[str]:
    return [
        f"{item.evidence.verdict if item.evidence else 'nothing said':<12} {run.program.name}:{item.span.line} "
        f"{item.name}: {item.evidence.detail if item.evidence else ''}"
        for run in recorded
        for item in run.findings
        if item.evidence is None or item.evidence.verdict not in POSITIVE
    ]


if __name__ == "__main__":
    main()
