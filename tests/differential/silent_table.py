"""The table of the rules about mistakes that raise nothing: how often they are right, and in what."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Protocol

from tapecheck.rules import ALL
from tests.cases.score import PROGRAMS

BEGIN = "<!-- silent: python -m tests.differential.silent --recorded --table docs/ecosystem.md -->"
END = "<!-- end of silent -->"
SURVEY = Path(__file__).parents[1] / "ecosystem" / "silent.tsv"
"""What the survey of public code came to: rule, warnings, wrong ones, infos; counted by hand."""
_BETWEEN = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)


class Tallied(Protocol):
    """What was compared: programs, and how often each rule was told as (code, "hit" | "missed" | "false" | "quiet")."""

    programs: int
    rules: Counter[tuple[str, str]]

    @property
    def agreement(self) -> float: ...


def placed(text: str, static: Tallied, confirmed: Tallied, alone: Tallied) -> str:
    """Return a page with the table as it is now; raises ValueError where the page has no place for one."""
    if not _BETWEEN.search(text):
        raise ValueError(f"no place for the table: {BEGIN}")
    made = f"{BEGIN}\n{table(static, confirmed, alone)}{END}"
    return _BETWEEN.sub(lambda _: made, text)


def table(static: Tallied, confirmed: Tallied, alone: Tallied) -> str:
    """Return the table as Markdown, one row a rule."""
    cases = _cases()
    survey = _survey()
    names = {rule.code: rule.name for rule in ALL}
    codes = sorted({code for code, _ in static.rules})
    by_both = f"{confirmed.agreement:.4f} by the dry run and a run together"
    rows = [
        f"{static.programs} generated programs: agreement {static.agreement:.4f} by the dry run, {by_both}.",
        "",
        "| rule | n | dry run: recall, precision | with a run | a run alone | cases: findings, clean | public code |",
        "|---|---|---|---|---|---|---|",
    ]
    for code in codes:
        count = static.rules[code, "hit"] + static.rules[code, "missed"]
        shares = " | ".join(_share(each, code) for each in (static, confirmed, alone))
        found, clean = cases.get(names[code], (0, 0))
        rows.append(f"| {code} | {count} | {shares} | {found}, {clean} | {survey.get(code, '')} |")
    return "\n".join(rows) + "\n"


def _share(tallied: Tallied, code: str) -> str:
    hit, missed, false = (tallied.rules[code, told] for told in ("hit", "missed", "false"))
    recall = f"{hit / (hit + missed):.3f}" if hit + missed else "–"
    precision = f"{hit / (hit + false):.3f}" if hit + false else "–"
    return f"{recall}, {precision}"


def _cases() -> dict[str, tuple[int, int]]:
    """Return of each rule how many cases have such a finding, and how many clean ones look as if they had."""
    found: Counter[str] = Counter()
    clean: Counter[str] = Counter()
    for path in PROGRAMS.glob("*.json"):
        truth = json.loads(path.read_text())
        rules = {finding["rule"] for finding in truth["findings"]}
        found.update(rules)
        tempts = {truth["measured"]["rule"]} if "measured" in truth else set()
        clean.update((tempts | set(truth.get("tempts", ()))) - rules)
    return {rule: (found[rule], clean[rule]) for rule in found | clean}


def _survey() -> dict[str, str]:
    """Return of each rule what it said of public code."""
    said = {}
    for line in SURVEY.read_text().splitlines():
        if line and not line.startswith("#"):
            code, warnings, wrong, infos = line.split("\t")
            said[code] = f"{warnings} warnings, {wrong} wrong; {infos} infos"
    return said
