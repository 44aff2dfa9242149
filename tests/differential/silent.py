"""The rules about mistakes that raise nothing, and torch, on generated programs in people's styles.

    python -m tests.differential.silent --programs 1000 --seed 1
    python -m tests.differential.silent FILE...

prints how often all rules say of a program what torch was measured to do (`silent_truth`), and the same rule by rule.
A program that disagrees is shrunk and written to a folder. Exit status 1 where there is one.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tapecheck.check import check
from tapecheck.rules.finding import Finding
from tapecheck.source import from_text
from tests.cases.recorded import POSITIVE, record_all
from tests.differential import silent_table, silent_truth
from tests.differential.compare import shrink
from tests.differential.silent_programs import generate
from tests.differential.silent_truth import Change, passes, place_of
from tests.differential.truth import NAME, Truth

CODES = ("TAPE302", "TAPE402", "TAPE403", "TAPE404", "TAPE405", "TAPE406", "TAPE407", "TAPE501")
_BY = hashlib.sha1(Path(silent_truth.__file__).read_bytes()).hexdigest()
"""What was kept of another measurement is none of this one."""
_TIMES = 1.5
"""Gradients are scaled where their norm is more than so many times what a scale of 1 gives."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What torch does in a program: of each rule the lines where its mistake is, or what is wrong there."""

    starved: frozenset[tuple[int, int]]
    """Parameters (optimizer, place in it) without a gradient at any of at least two steps."""
    idle: bool
    """Whether a layer that nothing runs is stepped: a finding about it is not wrong."""
    stale: frozenset[int]
    discarded: frozenset[int]
    needless: frozenset[int]
    needless_inside: frozenset[int]
    """Loops inside of those, which a finding may name as well."""
    left: tuple[str, ...]
    loose: tuple[str, ...]
    """The same of what no module with stepped parameters keeps: a temperature, but also all of a teacher."""
    checkpoints: frozenset[int]
    terms: frozenset[int]
    terms_said: frozenset[int]
    """Terms without effect that say themselves that they are constants: a finding about them is not wrong."""
    scaled: frozenset[int]


def measure(text: str, truth: Truth) -> Measured | None:
    """Measure a program; None where it raises, and has another kind of mistake."""

    def ask(change: Change | None = None) -> dict[str, Any] | None:
        given = {key: value for key, value in asdict(change or Change()).items() if value is not None}
        answer = truth.ask({"text": text, "silent": given, "by": _BY})
        watched: dict[str, Any] | None = answer["watch"] if answer["kind"] is None else None
        return watched

    # Watched, saved tensors go through hooks, which switch torch's own check of changes in place off.
    if truth.run(text).kind is not None:
        return None
    plain = ask()
    if plain is None:
        return None
    discarded = set()
    cleared, used = ({tuple(call) for call in plain[key]} for key in ("cleared", "used"))
    for line in {line for line, _ in cleared}:
        calls = tuple(sorted(which for row, which in cleared - used if row == line))
        if len(calls) < len({which for row, which in used if row == line}):
            continue
        for zeroed in (False, True) if calls and plain["steps"] else ():
            after = ask(Change(without_backward=(line, calls), zeroed=zeroed))
            # A program may ask for what it gives, such as the gradient of an input.
            if zeroed and plain["looked"]:
                continue
            if after is not None and after["steps"] == plain["steps"]:
                discarded.add(line)
    needless = set()
    for line, saved in plain["saving"]:
        if line in plain["walked"]:
            continue
        after = ask(Change(no_grad=line))
        if after is not None and (after["steps"], after["output"]) == (plain["steps"], plain["output"]):
            if dict(after["saving"]).get(line, 0) < saved:
                needless.add(line)
    for call, line in plain["calls"]:
        # A loop that trains where another line calls it: the same with this call alone.
        if line in plain["walked"]:
            after = ask(Change(no_grad=call))
            if after is not None and (after["steps"], after["output"]) == (plain["steps"], plain["output"]):
                needless.add(line)
    inner = {inside for around, inside in plain["inside"] if around in needless}
    never = {tuple(key) for key in plain["never"]}
    lost: set[Any] = set()
    if plain["checkpoints"]:
        after = ask(Change(reentrant=False))
        lost = {tuple(key) for key in after["given"]} - {tuple(key) for key in plain["given"]} if after else set()
    scaled = set()
    if plain["scaled"]:
        after = ask(Change(scale=1.0))
        of_one = dict(after["norms"]) if after is not None else {}
        scaled = {line for line, norm in plain["norms"] if line in of_one and norm > _TIMES * of_one[line]}
    terms, said = _terms(text, plain, ask)
    return Measured(
        frozenset(never), plain["idle"], frozenset(plain["stale"]), frozenset(discarded), frozenset(needless - inner),
        frozenset(needless & inner), tuple(plain["left"]), tuple(plain["loose"]),
        frozenset(plain["checkpoints"] if lost else ()),
        frozenset(terms), frozenset(said), frozenset(scaled),
    )  # fmt: skip


def _terms(
    text: str, plain: dict[str, Any], ask: Callable[[Change], dict[str, Any] | None]
) -> tuple[set[int], set[int]]:
    """Return the lines of sums of which a side changes nothing though the sum does; second, those that say so."""
    tree = ast.parse(text)
    within = passes(tree)
    terms, said = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            sides = {"left": node.right, "right": node.left}
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
            sides = {"left": node.value}
        else:
            continue
        if id(node) in within or any(isinstance(side, ast.Constant) for side in sides.values()):
            continue
        place = place_of(node)
        nothing = ask(Change(term=(*place, "nothing")))
        if nothing is None:
            continue
        if nothing["steps"] == plain["steps"]:
            # No gradient of it is other than zero: of its terms nothing can be told.
            said.add(node.lineno)
            continue
        for which, gone in sides.items():
            after = ask(Change(term=(*place, which)))
            if after is None or after["steps"] != plain["steps"]:
                continue
            cut = any(isinstance(part, ast.Attribute) and part.attr in _SAYING for part in ast.walk(gone))
            (said if cut else terms).add(node.lineno)
    for line, place, count in _summed_lists(tree, within):
        for index in range(count):
            after = ask(Change(term=(*place, f"without {index}")))
            if after is not None and after["steps"] == plain["steps"]:
                said.add(line)
    return terms, said - terms


def _summed_lists(tree: ast.AST, within: set[int]) -> Iterator[tuple[int, tuple[int, int, int, int], int]]:
    """Yield the lines where a list of terms is summed, with the place of the list and how many there are."""
    lists = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List) and len(node.value.elts) > 1
        for target in node.targets
        if isinstance(target, ast.Name) and id(node) not in within
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sum" and node.args:
            name = node.args[0]
            if isinstance(name, ast.Name) and name.id in lists:
                yield node.lineno, place_of(lists[name.id]), len(lists[name.id].elts)


_SAYING = ("detach", "item", "data")
"""What is written where a term is added says that it is a constant on purpose."""


@dataclass(frozen=True, slots=True)
class Compared:
    """How the findings of a program stand to what was measured: (code, told), told one of hit, missed, false, quiet."""

    told: tuple[tuple[str, str], ...]
    text: str = ""

    @property
    def agrees(self) -> bool:
        """Whether no rule missed anything or said something wrong."""
        return all(told in ("hit", "quiet") for _, told in self.told)


def compare(measured: Measured, findings: Sequence[Finding]) -> Compared:
    """Hold findings against what torch does."""
    by: dict[str, list[Finding]] = {code: [] for code in CODES}
    for finding in findings:
        by.setdefault(finding.code, []).append(finding)
    told = []

    def lines(code: str, wanted: frozenset[int], allowed: frozenset[int] = frozenset()) -> None:
        found = {
            row for one in by[code]
            for row in range(one.span.line, max(one.span.end_line, one.span.line) + 1)
        }  # fmt: skip
        for line in wanted:
            told.append((code, "hit" if line in found else "missed"))
        for one in by[code]:
            mine = set(range(one.span.line, max(one.span.end_line, one.span.line) + 1))
            if not mine & (wanted | allowed):
                told.append((code, "false"))
        if not wanted and not by[code]:
            told.append((code, "quiet"))

    def whole(code: str, wanted: bool, *others: str, aside: bool = False) -> None:
        reported = bool(by[code])
        if wanted and not reported and any(by.get(other) for other in others):
            told.append((code, "hit"))
        elif wanted or reported:
            told.append((code, "hit" if wanted and reported else "missed" if wanted else "quiet" if aside else "false"))
        else:
            told.append((code, "quiet"))

    # What an evaluation carries from round to round is one finding, of what keeps the graphs.
    kept = any(one.code in ("TAPE201", "TAPE202") for one in findings)
    lines("TAPE302", frozenset() if kept else measured.needless, measured.needless | measured.needless_inside)
    aside = measured.idle or all(one.facts.how == "frozen" for one in by["TAPE402"])
    # What another finding tells of the same parameters need not be told twice.
    whole("TAPE402", bool(measured.starved), "TAPE406", "TAPE404", "TAPE405", "TAPE401", aside=aside)
    lines("TAPE403", measured.stale)
    # A loss that reaches none of its parameters is told once, by what cuts it off.
    lines("TAPE404", frozenset() if by["TAPE402"] else measured.discarded, measured.discarded)
    whole("TAPE405", bool(measured.left), "TAPE402", aside=bool(measured.loose))
    lines("TAPE406", measured.checkpoints)
    # Where a backward trains nothing of what it should, its terms need not be told one by one.
    whole_told = bool(measured.starved or measured.discarded)
    lines("TAPE407", frozenset() if whole_told else measured.terms, measured.terms | measured.terms_said)
    lines("TAPE501", measured.scaled)
    shown = "\n".join(f"# tapecheck: {one.code} line {one.span.line}: {one.message}" for one in findings)
    return Compared(tuple(told), shown)


@dataclass(slots=True)
class Score:
    """What was compared."""

    programs: int = 0
    discarded: int = 0
    agree: int = 0
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    seeds: list[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=list)

    @property
    def agreement(self) -> float:
        """The share of programs of which every rule says what torch does, 0 to 1."""
        return self.agree / max(self.programs, 1)

    def add(self, name: str, compared: Compared) -> None:
        self.programs += 1
        self.agree += compared.agrees
        self.rules.update(compared.told)
        if not compared.agrees:
            self.seeds.append((name, tuple(each for each in compared.told if each[1] in ("missed", "false"))))

    def text(self) -> str:
        rows = [
            f"{self.programs} programs compared ({self.discarded} discarded): agreement {self.agreement:.4f}",
            f"{'rule':10}{'found':>8}{'missed':>8}{'false':>8}{'recall':>10}{'precision':>11}",
        ]
        for code in CODES:
            hit, missed, false = (self.rules[code, told] for told in ("hit", "missed", "false"))
            recall, precision = hit / max(hit + missed, 1), hit / max(hit + false, 1)
            rows.append(f"{code:10}{hit:8}{missed:8}{false:8}{recall:10.4f}{precision:11.4f}")
        return "\n".join(rows)


def recorded(programs: Sequence[tuple[str, str, Measured]]) -> tuple[Score, Score]:
    """Compare what runs confirm or find, and what they find without the dry run, with what torch does."""
    confirmed, alone = Score(), Score()
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for number, (_, text, _) in enumerate(programs):
            files.append(Path(folder) / f"p{number}.py")
            files[-1].write_text(text)
        for score, runs in ((confirmed, record_all(files)), (alone, record_all(files, alone=True))):
            for (name, _, measured), item in zip(programs, runs, strict=True):
                said = [one for one in item.findings if one.evidence is not None and one.evidence.verdict in POSITIVE]
                score.add(name, compare(measured, said))
    return confirmed, alone


def findings_of(text: str) -> list[Finding]:
    """Return what the dry run finds, at any level."""
    return list(check(from_text(text, NAME)).findings)


def _told(text: str, truth: Truth) -> Compared | None:
    measured = measure(text, truth)
    return None if measured is None else compare(measured, findings_of(text))


def shrunk(text: str, truth: Truth, wrong: Sequence[tuple[str, str]], seconds: float) -> str:
    """Return the smallest program found that is told as wrongly as this one."""

    def still(candidate: str) -> bool:
        if any(part in text and part not in candidate for part in (".backward(", ".step(")):
            return False
        told = _told(candidate, truth)
        return told is not None and set(wrong) <= set(told.told)

    return shrink(text, still, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential.silent", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("files", nargs="*", type=Path, help="programs to compare instead of generated ones")
    parser.add_argument("--programs", type=int, default=300, help="how many programs (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first program; the others follow (default 1)")
    parser.add_argument("--out", type=Path, default=Path(".build/silent"), help="folder for disagreements")
    parser.add_argument("--shrink", type=float, default=20.0, help="seconds to spend on shrinking each (0: do not)")
    parser.add_argument("--cache", type=Path, help="folder that keeps what torch does for the next time")
    parser.add_argument("--recorded", action="store_true", help="run each program under the recorder, too")
    parser.add_argument("--table", type=Path, help="Markdown file whose table of rules is written anew (--recorded)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    score = Score()
    programs = [(str(file), file.read_text()) for file in options.files] or [
        (f"seed {seed}", generate(seed)) for seed in range(options.seed, options.seed + options.programs)
    ]
    compared: list[tuple[str, str, Measured]] = []
    with Truth(cache=options.cache) as truth:
        for name, text in programs:
            measured = measure(text, truth)
            if measured is None:
                score.discarded += 1
                continue
            told = compare(measured, findings_of(text))
            compared.append((name, text, measured))
            score.add(name, told)
            if told.agrees:
                continue
            wrong = score.seeds[-1][1]
            print(f"{name}: {', '.join(' '.join(each) for each in wrong)}", flush=True)
            if options.shrink:
                text = shrunk(text, truth, wrong, options.shrink)
                measured = measure(text, truth)
                told = compare(measured, findings_of(text)) if measured is not None else told
            shown = f"# {name}: {wrong}\n# torch: {measured}\n{told.text}\n"
            stem = name.replace(" ", "_").replace("/", "_")
            (options.out / f"{'_'.join(wrong[0])}_{stem}.py").write_text(text.rstrip("\n") + "\n" + shown)
    print(score.text())
    if options.recorded:
        confirmed, alone = recorded(compared)
        print(f"what a run confirms or finds:\n{confirmed.text()}\nwhat a run finds by itself:\n{alone.text()}")
        if options.table is not None:
            options.table.write_text(silent_table.placed(options.table.read_text(), score, confirmed, alone))
    return 0 if score.agree == score.programs else 1


if __name__ == "__main__":
    sys.exit(main())
