"""Baselines: the findings that a project has today, written down so that only new ones are reported.

Entries name the rule, the file, the function and the text of the line, and no line number: they stay valid when lines
move. Paths are relative to the folder of the baseline.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tapecheck.report.checked import Checked
from tapecheck.report.excerpt import Sources
from tapecheck.report.fingerprint import Identity, identity, known_texts
from tapecheck.report.places import Places

VERSION = 1
_ABOUT = "findings that `tapecheck check --baseline` leaves out; made by --write-baseline"


class BaselineError(Exception):
    """The file is no baseline; the message is for the user."""


def written(files: Sequence[Checked], sources: Sources, path: str) -> str:
    """Return the baseline of what was found, for the file at `path`."""
    known_texts(files, sources)
    places = Places(Path(path).absolute().parent, upwards=True)
    found = Counter(
        identity(finding.code, finding.span, sources, places) for file in files for finding in file.findings
    )
    rows = [
        {"file": one.file, "code": one.code, "in": one.scope, "text": one.text, "count": number}
        for one, number in sorted(found.items())
    ]
    return json.dumps({"about": _ABOUT, "version": VERSION, "findings": rows}, indent=1, ensure_ascii=False) + "\n"


def read(path: str) -> Counter[Identity]:
    """Return how often each finding stands in a baseline; raises BaselineError where the file is none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path}: not a baseline: {error}") from error
    if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("findings"), list):
        raise BaselineError(f"{path}: not a baseline of this version: write it anew with --write-baseline")
    found: Counter[Identity] = Counter()
    for row in data["findings"]:
        try:
            texts = (row["file"], row["code"], row["in"], row["text"])
            number = row["count"]
        except (TypeError, LookupError) as error:
            raise BaselineError(f"{path}: not a baseline: an entry lacks {error}") from error
        if not all(isinstance(text, str) for text in texts) or not isinstance(number, int):
            raise BaselineError(f"{path}: not a baseline: {row!r}")
        found[Identity(*texts)] += number
    return found


def hide(files: Sequence[Checked], sources: Sources, known: Counter[Identity], path: str) -> int:
    """Take out of `files` what a baseline has; return how many of its entries for these files are found no more.

    Of several findings that look the same, as many as the baseline has are taken out, the first ones.
    """
    known_texts(files, sources)
    places = Places(Path(path).absolute().parent, upwards=True)
    left = Counter(known)
    for file in files:
        kept: list[int] = []
        for index, finding in enumerate(file.findings):
            one = identity(finding.code, finding.span, sources, places)
            if left[one] > 0:
                left[one] -= 1
            else:
                kept.append(index)
        file.known = len(file.findings) - len(kept)
        file.fixes = [file.fixes_of(index) for index in kept]
        file.trials = [file.trial_of(index) for index in kept]
        file.findings = [file.findings[index] for index in kept]
    checked = {places.path(file.path) for file in files if not file.problems}
    return sum(number for one, number in left.items() if one.file in checked)
