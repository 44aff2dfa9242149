"""Generated programs under torch and under the dry run: the same verdict at the same line?

    python -m tests.differential.compare --programs 1000 --seed 1

prints the agreement and writes each disagreement, shrunk, to a folder. Exit status 1 where there is one.
"""

from __future__ import annotations

import argparse
import ast
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapecheck.check import check
from tapecheck.interpret import interpret
from tapecheck.rules import judge as apply_rules
from tapecheck.source import from_text
from tapecheck.tape import Backward, End, InPlace, Ledger, Raised, Tape
from tests.differential import growth
from tests.differential.generate import generate
from tests.differential.truth import NAME, Outcome, Truth, going_on, kind_of

RULES = {"second": ("TAPE101",), "stale": ("TAPE102",), "no-graph": ("TAPE103", "TAPE401"), "leaf": ("TAPE104",)}
"""The rules that tell of a kind of error, the usual one first."""
LEDGER_KINDS = {"freed": "second", "stale": "stale", "no-graph": "no-graph", "unused": "unused"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the dry run says of a program: how its first way ends, and what else it holds possible.

    `possible` are (kind, line) of errors that it says may happen, and those of its other ways. `endings` are how
    its ways end, the first included. `ways` is the number of tapes; `gave_up` says that the first one is not whole.
    """

    kind: str | None
    line: int | None
    possible: frozenset[tuple[str, int]] = frozenset()
    endings: frozenset[tuple[str | None, int | None]] = frozenset()
    ways: int = 1
    gave_up: bool = False
    caught: tuple[tuple[str, int], ...] = ()
    """The errors that the first way raises and catches."""
    findings: tuple[tuple[str, int, bool], ...] = ()
    """What the rules say: code, line, whether it is certain."""


def predict(text: str) -> Verdict:
    """The verdict of the dry run; kind "crash" where it fails itself."""
    try:
        tapes = interpret(from_text(text, NAME)).tapes
        found = tuple((one.code, one.span.line, one.certain) for one in apply_rules(tapes))
    except Exception as error:  # a crash is a disagreement of its own kind, told like the others
        return Verdict(f"crash: {type(error).__name__}: {error}", None)
    if not tapes:
        return Verdict(None, None, ways=0)
    kind, line = _ending(tapes[0])
    possible = {found for tape in tapes for found in _possible(tape)}
    possible |= {(k, n) for k, n in map(_ending, tapes[1:]) if k is not None and n is not None}
    end = tapes[0].events[-1]
    gave_up = not isinstance(end, End) or end.how == "budget"
    endings = {_ending(tape) for tape in tapes if isinstance(tape.events[-1], End) and tape.events[-1].how != "budget"}
    caught = tuple(
        (kind_of(event.message), event.at.line)
        for event in tapes[0].events
        if isinstance(event, Raised) and event.caught and kind_of(event.message) != "other"
    )
    return Verdict(kind, line, frozenset(possible), frozenset(endings), len(tapes), gave_up, caught, found)


def _ending(tape: Tape) -> tuple[str | None, int | None]:
    end = tape.events[-1]
    if not isinstance(end, End) or end.how != "raised":
        return None, None
    for event in reversed(tape.events):
        if isinstance(event, Raised) and not event.caught:
            return kind_of(event.message), event.at.line
    return "other", None


def _possible(tape: Tape) -> Iterator[tuple[str, int]]:
    """Errors that may happen and do not end the tape."""
    ledger = Ledger()
    for event in tape.events:
        traversal = ledger.feed(event)
        problem = traversal.problem if traversal is not None else None
        if problem is not None and problem.certain != "yes" and isinstance(event, Backward):
            yield LEDGER_KINDS[problem.kind], event.at.line
        elif isinstance(event, InPlace) and event.leaf is not None and event.grad_mode == "may":
            yield "leaf", event.at.line


def judge(outcome: Outcome, verdict: Verdict, ways: Sequence[Outcome] = ()) -> str:
    """How a verdict stands to the truth.

    "agree": the same ending at the same line. "unsure": another ending, but the true one is among those it holds
    possible, or the program goes on where it said "may". "differ": anything else.

    `ways` are the outcomes of a program whose conditions hang on data, whichever way they go. Then "agree" asks that
    the true ending is that of a way of the dry run, and that every error it says there may be is one of some way.
    """
    if ways:
        real = {(way.kind, way.line) for way in (outcome, *ways)}
        claimed = {ending for ending in verdict.endings if ending[0] is not None}
        if claimed <= real and (outcome.kind, outcome.line) in verdict.endings:
            return "agree"
        if claimed <= real and (outcome.kind, outcome.line) in verdict.possible:
            return "unsure"
        return "differ"
    if (outcome.kind, outcome.line) == (verdict.kind, verdict.line):
        return "agree"
    if outcome.kind is not None and (outcome.kind, outcome.line) in verdict.possible and verdict.kind is None:
        return "unsure"
    return "differ"


def _without(text: str, position: int) -> str | None:
    """The program without its literal `retain_graph=True` number `position`, None where there is none."""
    tree = ast.parse(text)
    calls = [(call, keyword) for call, keyword in _retaining(tree)]
    if position >= len(calls):
        return None
    call, keyword = calls[position]
    call.keywords.remove(keyword)
    return ast.unparse(tree)


def _retaining(tree: ast.AST) -> Iterator[tuple[ast.Call, ast.keyword]]:
    """Backward and grad calls with a literal retain_graph=True and no create_graph, in a fixed order."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", "") in ("backward", "grad")
            and not any(keyword.arg == "create_graph" for keyword in node.keywords)
        ):
            for keyword in node.keywords:
                if (
                    keyword.arg == "retain_graph"
                    and isinstance(keyword.value, ast.Constant)
                    and keyword.value.value is True
                ):
                    yield node, keyword


@dataclass(frozen=True, slots=True)
class Retain:
    """One literal retain_graph=True: whether it was measured to be needless, and whether TAPE301 says so."""

    line: int
    needless: bool
    reported: bool
    reached: bool


def retains(text: str, truth: Truth) -> list[Retain]:
    """Measure every literal retain_graph=True of a program that runs to its end, and ask TAPE301."""
    text = ast.unparse(ast.parse(text))
    calls = list(_retaining(ast.parse(text)))
    if not calls:
        return []
    whole = truth.run(text, digest=True)
    if whole.kind is not None:
        return []
    reported = {
        (finding.span.line, finding.span.column)
        for finding in check(from_text(text, NAME), select=["TAPE301"]).findings
    }
    found = []
    for position, (call, _keyword) in enumerate(calls):
        edited = _without(text, position)
        assert edited is not None
        after = truth.run(edited, digest=True)
        # A call that never runs, or fails inside a try, is neither needed nor needless.
        probe = truth.run(_marked(text, position))
        reached = probe.kind == "other" and "SystemExit" in probe.message
        found.append(
            Retain(
                call.lineno, after.kind is None and after.digest == whole.digest,
                (call.lineno, call.col_offset + 1) in reported, reached,
            )
        )  # fmt: skip
    return found


def _marked(text: str, position: int) -> str:
    """The program that ends once a call has returned, to see whether it ever does."""
    tree = ast.parse(text)
    call, _keyword = list(_retaining(tree))[position]
    inner = ast.Call(call.func, call.args, call.keywords)
    stop = ast.parse("exit()", mode="eval").body
    call.func = ast.parse("tuple", mode="eval").body
    call.args, call.keywords = [ast.Tuple([inner, stop], ast.Load())], []
    return ast.unparse(ast.fix_missing_locations(tree))


def shrink(text: str, still: Callable[[str], bool], seconds: float = 60.0) -> str:
    """Delete statements for as long as `still` holds of what is left."""
    best = ast.unparse(ast.parse(text))
    if not still(best):
        return text
    deadline = time.monotonic() + seconds
    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        position = 0
        while time.monotonic() < deadline:
            candidates = _smaller(best, position)
            if candidates is None:
                break
            for candidate in candidates:
                if candidate != best and still(candidate):
                    best, changed = candidate, True
                    break
            else:
                position += 1
    return best


def _smaller(text: str, position: int) -> list[str] | None:
    """The program without its statement number `position` (the last ones first), or with its body in its place."""
    count = len(_bodies(ast.parse(text)))
    if position >= count:
        return None
    found = []
    for unwrap in (False, True):
        tree = ast.parse(text)
        body, index = _bodies(tree)[count - 1 - position]
        node = body[index]
        if not unwrap:
            replacement: list[ast.stmt] = []
        elif isinstance(node, (ast.If, ast.With, ast.Try)):
            replacement = node.body
        else:
            continue
        body[index : index + 1] = replacement
        if not body:
            body.append(ast.Pass())
        found.append(ast.unparse(ast.fix_missing_locations(tree)))
    return found


def _bodies(tree: ast.AST) -> list[tuple[list[ast.stmt], int]]:
    """Every statement as its list and its place there, in source order."""
    found: list[tuple[list[ast.stmt], int]] = []

    def visit(node: ast.AST) -> None:
        for name in ("body", "handlers", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if not isinstance(block, list):
                continue
            for index, child in enumerate(block):
                if isinstance(child, ast.stmt):
                    found.append((block, index))
                visit(child)

    visit(tree)
    return found


LEAKS = ("TAPE201", "TAPE202", "TAPE203")


@dataclass(frozen=True, slots=True)
class Growth:
    """Whether the outermost loops of a program, made longer, were measured to leak, and whether a rule says so."""

    text: str
    leaks: bool
    reported: tuple[tuple[str, int], ...]
    """Codes and lines. Of inner loops nothing is measured: findings about them count where the outer one leaks."""


def leak(text: str, truth: Truth) -> Growth | None:
    """Measure what the loops of a program leave behind, and ask the rules; None where that cannot be measured."""
    text = growth.longer(text)
    if truth.run(text).kind is not None:
        return None
    loops = truth.growth(text)
    if not loops or max(loop["iterations"] for loop in loops) < 5:
        return None
    leaks = any(map(growth.grows, loops))
    measured = {loop["line"] for loop in loops}
    found = [
        one
        for one in check(from_text(text, NAME), select=LEAKS).findings
        if leaks or one.facts.loop is None or one.facts.loop.line in measured
    ]
    return Growth(text, leaks, tuple((one.code, one.span.line) for one in found))


def without_cut(text: str) -> Iterator[tuple[int, str]]:
    """The program with one of its cuts taken out, for each: a detach, a .data that is read, a no_grad block."""
    for position in range(len(_cuts(ast.parse(text)))):
        tree = ast.parse(text)
        node = _cuts(tree)[position]
        line = node.lineno

        class Take(ast.NodeTransformer):
            def visit(self, other: ast.AST, node: ast.expr = node) -> Any:
                if other is not node:
                    return self.generic_visit(other)
                if isinstance(node, ast.Attribute):
                    return node.value
                assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                if node.func.attr == "detach":
                    return node.func.value
                return ast.parse("contextlib.nullcontext()", mode="eval").body

        yield line, ast.unparse(ast.fix_missing_locations(Take().visit(tree)))


def _cuts(tree: ast.AST) -> list[ast.expr]:
    found: list[ast.expr] = []
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.endswith("_")}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "data" and isinstance(node.ctx, ast.Load):
            if id(node) not in inner:
                found.append(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            if node.func.attr in ("detach", "no_grad"):
                found.append(node)
    return found


@dataclass(frozen=True, slots=True)
class Starved:
    """Whether some cut of a program was measured to be why a stepped parameter gets no gradient."""

    lines: tuple[int, ...]
    """The lines of the cuts without which a parameter would get its gradient."""
    reported: tuple[int, ...]
    unfed: bool
    """Whether some stepped parameter never got a gradient at all."""


def starved(text: str, truth: Truth) -> Starved | None:
    """Measure which cuts keep parameters of an optimizer from their gradients, and ask TAPE402."""
    text = ast.unparse(ast.parse(text))
    before = truth.starved(text)
    if before is None:
        return None
    lines = []
    for line, edited in without_cut(text) if before else ():
        after = truth.starved(edited)
        if after is not None and after < before:
            lines.append(line)
    found = check(from_text(text, NAME), select=["TAPE402"]).findings
    return Starved(tuple(lines), tuple(finding.span.line for finding in found), bool(before))


@dataclass(frozen=True, slots=True)
class Constant:
    """Whether gradients of a program, taken without create_graph, were measured to be missed by what follows."""

    lines: tuple[int, ...]
    """The lines of the calls with which, given create_graph=True, the program ends with other tensors or gradients."""
    reported: tuple[int, ...]


def constants(text: str, truth: Truth) -> Constant | None:
    """Give each autograd.grad without create_graph its graph, and ask TAPE401; None where there is none."""
    text = ast.unparse(ast.parse(text))
    calls = _without_create(ast.parse(text))
    if not calls:
        return None
    whole = truth.run(text, digest=True)
    if whole.kind is not None:
        return None
    lines = []
    for position in range(len(calls)):
        tree = ast.parse(text)
        call = _without_create(tree)[position]
        call.keywords = [keyword for keyword in call.keywords if keyword.arg != "create_graph"]
        call.keywords.append(ast.keyword("create_graph", ast.Constant(True)))
        after = truth.run(ast.unparse(ast.fix_missing_locations(tree)), digest=True)
        if after.kind is None and after.digest != whole.digest:
            lines.append(call.lineno)
    found = check(from_text(text, NAME), select=["TAPE401"]).findings
    return Constant(tuple(lines), tuple(finding.span.line for finding in found))


def _without_create(tree: ast.AST) -> list[ast.Call]:
    """Calls of autograd.grad whose gradients have no graph."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "grad":
            given = [keyword.value for keyword in node.keywords if keyword.arg == "create_graph"]
            if not given or (isinstance(given[0], ast.Constant) and given[0].value is False):
                found.append(node)
    return found


@dataclass(frozen=True, slots=True)
class Sequel:
    """Where a program that goes on after its errors raises: under torch and in the dry run.

    Kinds and lines, not how often: the dry run leaves out repetitions.
    """

    text: str
    real: frozenset[tuple[str, int]]
    said: frozenset[tuple[str, int]]


def sequel(text: str, truth: Truth) -> Sequel | None:
    """Let a program go on after each error, and compare all of them; None where it ends in another error."""
    text = going_on(text)
    outcome = truth.run(text)
    if outcome.kind == "other":
        return None
    verdict = predict(text)
    return Sequel(text, frozenset((*outcome.caught, *_end(outcome))), frozenset((*verdict.caught, *_end(verdict))))


def _end(one: Outcome | Verdict) -> tuple[tuple[str, int], ...]:
    return ((one.kind, one.line or 0),) if one.kind is not None else ()


@dataclass(slots=True)
class Score:
    """What a comparison found."""

    agree: Counter[str] = field(default_factory=Counter)
    unsure: list[int] = field(default_factory=list)
    differ: list[int] = field(default_factory=list)
    discarded: int = 0
    ways: int = 0
    on_data: int = 0
    """Programs with conditions on data."""
    warned: list[int] = field(default_factory=list)
    """Programs that end as predicted, without an error, of which the dry run says that one may happen."""
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(code, told) with told one of certain, may, missed, false."""
    causes: Counter[str] = field(default_factory=Counter)
    sequels: Counter[str] = field(default_factory=Counter)
    """Programs that go on after their errors, and the errors in them, by whether all are those of torch."""
    sequel_seeds: list[int] = field(default_factory=list)
    leaks: Counter[str] = field(default_factory=Counter)
    leak_seeds: list[tuple[int, str]] = field(default_factory=list)
    cuts: Counter[str] = field(default_factory=Counter)
    cut_seeds: list[tuple[int, str]] = field(default_factory=list)
    constants: Counter[str] = field(default_factory=Counter)
    """Programs with gradients taken without create_graph: "found" where TAPE401 says so and what the program computes
    changes with it, "false" where it says so and nothing changes; "first order" where it keeps quiet of a change,
    since a gradient may be meant to be a constant."""
    constant_seeds: list[int] = field(default_factory=list)
    retain: Counter[str] = field(default_factory=Counter)
    retain_seeds: list[tuple[int, int, str]] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.agree.total() + len(self.unsure) + len(self.differ)

    @property
    def agreement(self) -> float:
        """The share of exact agreement, 0 to 1."""
        return self.agree.total() / max(self.compared, 1)

    def tell_rules(self, text: str, outcome: Outcome, verdict: Verdict) -> None:
        """Hold the findings of the rules that speak of exceptions against how a program ends."""
        wanted = RULES.get(outcome.kind or "", ())
        told = {certain for code, line, certain in verdict.findings if code in wanted and line == outcome.line}
        if wanted:
            self.rules[wanted[0], "certain" if True in told else "may" if told else "missed"] += 1
        if "except" in text:
            # What a program catches may be found, too, and is not how it ends.
            return
        for code, line, certain in verdict.findings:
            if certain and code in ("TAPE101", "TAPE102", "TAPE103", "TAPE104"):
                if not (code in wanted and line == outcome.line):
                    self.rules[code, "false"] += 1

    def rules_text(self) -> str:
        told = ("certain", "may", "missed", "false")
        codes = sorted({code for code, _ in self.rules})
        rows = [f"    {code}  " + "  ".join(f"{how} {self.rules[code, how]}" for how in told) for code in codes]
        return "\n".join(rows)

    def text(self) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in self.agree.most_common())
        hits, false, missed, quiet = (self.retain[name] for name in ("hit", "false", "missed", "quiet"))
        return (
            f"{self.compared} programs compared ({self.discarded} discarded): agreement {self.agreement:.4f}\n"
            f"  agree {self.agree.total()} ({kinds}), unsure {len(self.unsure)}, differ {len(self.differ)}; "
            f"{self.ways} explored more than one way, {self.on_data} with conditions on data\n"
            f"  clean, but said to be able to raise: {len(self.warned)} {self.warned[:20]}\n"
            f"  by rule, how what torch raises is told:\n{self.rules_text()}\n"
            f"  causes of disagreement: {dict(self.causes)}\n"
            f"  going on after each error: {dict(self.sequels)}\n"
            f"  graphs kept by loops: {dict(self.leaks)}\n"
            f"  parameters cut off: {dict(self.cuts)}\n"
            f"  gradients without create_graph: {dict(self.constants)}\n"
            f"  needless retain_graph: found {hits}, false {false}, missed {missed}, quiet rightly {quiet}"
        )


def _name(real: bool, reported: bool) -> str:
    return ("hit" if reported else "missed") if real else ("false" if reported else "quiet")


def compare(seeds: range, truth: Truth, tell: Callable[[int, str, Outcome, Verdict], None] | None = None,
            *, retain: bool = True, penalties: bool = True, leaks: bool = True,
            sequels: bool = True) -> Score:  # fmt: skip
    """Compare the programs of seeds; `tell` hears of each that is not agreed on."""
    score = Score()
    for seed in seeds:
        text = generate(seed)
        outcome = truth.run(text)
        if outcome.kind == "other":
            score.discarded += 1
            continue
        verdict = predict(text)
        ways = truth.ways(text)
        score.ways += verdict.ways > 1
        score.on_data += bool(ways)
        answer = judge(outcome, verdict, ways)
        if sequels and not ways and outcome.kind is not None:
            going = sequel(text, truth)
            if going is not None:
                score.sequels["agree" if going.real == going.said else "differ"] += 1
                score.sequels["errors"] += len(going.real)
                if going.real != going.said:
                    score.sequel_seeds.append(seed)
        if not ways:
            score.tell_rules(text, outcome, verdict)
        if answer == "agree":
            score.agree[outcome.kind or "clean"] += 1
            if outcome.kind is None and verdict.possible and not ways:
                score.warned.append(seed)
            if leaks and outcome.kind is None and not ways:
                one_leak = leak(text, truth)
                if one_leak is not None:
                    name = _name(one_leak.leaks, bool(one_leak.reported))
                    score.leaks[name] += 1
                    if name in ("false", "missed"):
                        score.leak_seeds.append((seed, name))
            if leaks and outcome.kind is None and not ways:
                one_cut = starved(text, truth)
                if one_cut is not None:
                    name = _name(bool(one_cut.lines), bool(one_cut.reported))
                    if name == "false" and one_cut.unfed:
                        # A parameter without gradient indeed, by a cut nobody can take out (argmax, a comparison).
                        name = "unproven"
                    score.cuts[name] += 1
                    if name in ("false", "missed"):
                        score.cut_seeds.append((seed, name))
            if penalties and outcome.kind is None and not ways:
                one_constant = constants(text, truth)
                if one_constant is not None:
                    name = _name(bool(one_constant.lines), bool(one_constant.reported))
                    name = {"hit": "found", "missed": "first order"}.get(name, name)
                    score.constants[name] += 1
                    if name == "false":
                        score.constant_seeds.append(seed)
            if retain and outcome.kind is None and not ways:
                for one in retains(text, truth):
                    if not one.reached:
                        continue
                    name = _name(one.needless, one.reported)
                    score.retain[name] += 1
                    if name in ("false", "missed"):
                        score.retain_seeds.append((seed, one.line, name))
            continue
        cause = str(verdict.kind).split(":")[0] if verdict.kind != outcome.kind else "at another line"
        score.causes[f"{answer}: torch {outcome.kind}, dry run {cause}"] += 1
        (score.unsure if answer == "unsure" else score.differ).append(seed)
        if tell is not None:
            tell(seed, text, outcome, verdict)
    return score


def shrunk(text: str, truth: Truth, outcome: Outcome, verdict: Verdict, seconds: float) -> str:
    """The smallest program found on which torch and the dry run end in the same two different ways."""
    wanted = (outcome.kind, verdict.kind)
    answer = judge(outcome, verdict, truth.ways(text))

    def still(candidate: str) -> bool:
        said = predict(candidate)
        if said.kind != verdict.kind:
            return False
        real = truth.run(candidate)
        return (real.kind, said.kind) == wanted and judge(real, said, truth.ways(candidate)) == answer

    return shrink(text, still, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential.compare", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--programs", type=int, default=300, help="how many programs (default 300)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first program; the others follow (default 1)")
    parser.add_argument("--out", type=Path, default=Path(".build/differential"), help="folder for disagreements")
    parser.add_argument("--shrink", type=float, default=20.0, help="seconds to spend on shrinking each (0: do not)")
    parser.add_argument("--cache", type=Path, help="folder that keeps the outcomes under torch for the next time")
    parser.add_argument("--no-retain", action="store_true", help="leave out the measurements of retain_graph")
    parser.add_argument("--no-penalties", action="store_true", help="leave out those of gradients without create_graph")
    parser.add_argument("--no-leaks", action="store_true", help="leave out those of what loops keep and of cuts")
    parser.add_argument("--no-sequels", action="store_true", help="do not let programs go on after their errors")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with Truth(cache=options.cache) as truth:

        def tell(seed: int, text: str, outcome: Outcome, verdict: Verdict) -> None:
            if options.shrink:
                text = shrunk(text, truth, outcome, verdict, options.shrink)
                outcome, verdict = truth.run(text), predict(text)
            may = f"may: {sorted(verdict.possible)}, ways: {verdict.ways}{', gave up' if verdict.gave_up else ''}"
            told = (
                f"# seed {seed}\n# torch: {outcome.kind} at line {outcome.line}\n"
                f"# dry run: {verdict.kind} at line {verdict.line}, {may}\n"
            )
            answer = judge(outcome, verdict, truth.ways(text))
            name = f"{answer}_{outcome.kind}_{str(verdict.kind).split(':')[0]}_{seed}.py"
            # The lines of the program stay where they are: what is said of it comes after it.
            (options.out / name).write_text(text.rstrip("\n") + "\n" + told)
            print(
                f"seed {seed}: torch {outcome.kind} at {outcome.line}, dry run {verdict.kind} at {verdict.line}",
                flush=True,
            )

        seeds = range(options.seed, options.seed + options.programs)
        score = compare(
            seeds, truth, tell,
            retain=not options.no_retain, penalties=not options.no_penalties, leaks=not options.no_leaks,
            sequels=not options.no_sequels,
        )  # fmt: skip
    print(score.text())
    if score.sequel_seeds:
        print(f"  other errors on going on: seeds {score.sequel_seeds[:40]}")
    for seed, name in score.leak_seeds:
        print(f"  leak {name}: seed {seed}")
    for seed, name in score.cut_seeds:
        print(f"  cut {name}: seed {seed}")
    for seed in score.constant_seeds:
        print(f"  gradient without create_graph false: seed {seed}")
    for seed, line, name in score.retain_seeds:
        print(f"  retain_graph {name}: seed {seed}, line {line} of the unparsed program")
    return 1 if score.differ or score.unsure else 0


if __name__ == "__main__":
    sys.exit(main())
