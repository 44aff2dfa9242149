"""Public bugs with their repair: the tool should speak before and be quiet after.

    python -m tests.ecosystem.repairs FOLDER

FOLDER holds clones (bare or not) as `OWNER+NAME`, whole histories. `repairs.tsv` names the commits before and after,
the file and the rule, no code; chosen by diffs and messages of commits. Nothing of a clone is executed.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tapecheck.cli.across import to_their_files
from tapecheck.cli.checking import CheckOptions, check_callers, check_files
from tapecheck.source.project import Projects, Setup

TABLE = Path(__file__).with_name("repairs.tsv")


@dataclass(frozen=True, slots=True)
class Repair:
    """A bug of one kind in a file, at the commit before its repair and the one after."""

    repository: str
    before: str
    after: str
    path: str
    rule: str


def repairs() -> list[Repair]:
    """Return the repairs of the table."""
    rows = TABLE.read_text(encoding="utf-8").splitlines()
    return [Repair(*row.split("\t")) for row in rows if row and not row.startswith("#")]


def lines_told(clone: Path, commit: str, path: str, rule: str) -> list[int] | None:
    """Return the lines of a rule's findings in a file as of a commit, None where the clone does not have it."""
    with tempfile.TemporaryDirectory() as folder:
        packed = _git(clone, "archive", commit, "--", *_kept(clone, commit))
        with suppress(tarfile.TarError), tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith((".py", ".ipynb")):
                    member.mode = 0o644
                    archive.extract(member, folder, filter="data")
        file = Path(folder, path)
        if not file.is_file():
            # A clone without its large files gives no whole archive.
            text = _git(clone, "show", f"{commit}:{path}")
            if not text:
                return None
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
        return [line for code, line in _told(file) if code == rule]


def _told(file: Path) -> list[tuple[str, int]]:
    """Return codes and lines of what is found from a file, and in it by its callers, as `check FILE` does."""
    wanted = CheckOptions(fixes=False, projects=Projects(Setup(isolated=True)))
    files = list(check_files([str(file)], wanted, 1))
    callers = check_callers(files, wanted, 1)
    to_their_files(files, rules=wanted.rules, projects=wanted.projects, callers=callers)
    return [(one.code, one.span.line) for checked in files for one in (*checked.findings, *checked.elsewhere)]


def _kept(clone: Path, commit: str) -> list[str]:
    """Return the patterns that match something in a commit: a clone need not have its large files."""
    names = _git(clone, "ls-tree", "-r", "--name-only", commit).decode("utf-8", "replace").splitlines()
    return [pattern for pattern in ("*.py", "*.ipynb") if any(name.endswith(pattern[1:]) for name in names)]


def _git(clone: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(clone), *words], capture_output=True, check=False).stdout


def holds(before: list[int] | None, after: list[int] | None) -> bool | None:
    """Return whether it spoke of the bug and no longer does, None where that could not be asked."""
    if before is None or after is None:
        return None
    return len(after) < len(before)


def main(arguments: list[str]) -> int:
    """Print each repair with the lines told before and after, and how many hold."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    answers: list[bool | None] = []
    for repair in repairs():
        clone = Path(arguments[0], repair.repository.replace("/", "+", 1))
        told = [lines_told(clone, commit, repair.path, repair.rule) for commit in (repair.before, repair.after)]
        answers.append(holds(*told))
        word = {True: "holds", False: "missed", None: "absent"}[answers[-1]]
        place = f"{repair.repository} {repair.after[:8]} {repair.path}"
        print(f"{word:6} {repair.rule} {place}: {told[0]} -> {told[1]}", flush=True)
    asked = [answer for answer in answers if answer is not None]
    print(f"{sum(asked)} of {len(asked)} told before and not after")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
