"""The verdict of a recorded run on a finding, rule by rule: confirmed, refuted, not reached, or nothing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tapecheck.record.places import (
    holder_of,
    holds_there,
    is_statement,
    its_optimizers,
    loop_of,
    outside_its_loop,
    reached_there,
)
from tapecheck.record.story import (
    MIN_RUNS,
    Kept,
    Sample,
    Series,
    Story,
    end_text,
    iteration,
    last_name,
    loop_line,
    matches,
    raised_measure,
    raised_text,
    short,
)
from tapecheck.record.words import names_text, steps_text, times
from tapecheck.report.sizes import bytes_text
from tapecheck.rules import RAISING, Evidence, Finding
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.checkpoint_without_gradient.rule import CheckpointWithoutGradient
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.gradient_cut.rule import GradientCut
from tapecheck.rules.gradient_discarded.rule import GradientDiscarded
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.graph_kept.rule import GraphKeptAcrossIterations
from tapecheck.rules.growing_chain.rule import GrowingChain
from tapecheck.rules.missing_create_graph.facts import MissingCreateGraphFacts
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph
from tapecheck.rules.needless_graph.rule import NeedlessGraph
from tapecheck.rules.needless_retain_graph.rule import NeedlessRetainGraph
from tapecheck.rules.reading import Run, plain
from tapecheck.rules.scaled_gradient_read.rule import ScaledGradientRead
from tapecheck.rules.stale_gradient.rule import StaleGradient
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.term_without_effect.facts import TermWithoutEffectFacts
from tapecheck.rules.term_without_effect.rule import MERGES, Term, TermWithoutEffect, terms_of
from tapecheck.rules.untrained_parameter.rule import UntrainedParameter
from tapecheck.rules.words import line
from tapecheck.source import SourceError, read_source
from tapecheck.tape import Span

_OF_CALLS = frozenset((BackwardTwice.code, StaleSavedTensor.code, BackwardWithoutGraph.code))
"""The rules whose findings stand at the backward call that raises."""

_WORTH_TELLING = 1 << 16
"""So many bytes of kept tensors are more than the numbers of a history."""


def _by_exception(story: Story, finding: Finding) -> Evidence | None:
    for raised in story.raised:
        if finding.code in story.codes(raised) and story.at(finding.span, raised.at.span):
            return Evidence("confirmed", raised_text(story, raised), iteration(raised.at), raised_measure(raised))
    # The line that raises may lie in a callee of the statement that the finding names, or the other way round.
    for raised in story.raised:
        if finding.code in story.codes(raised) and any(story.at(finding.span, caller) for caller in raised.at.stack):
            return Evidence("confirmed", raised_text(story, raised), iteration(raised.at), raised_measure(raised))
    ran = story.count(finding.span)
    if ran and finding.code in _OF_CALLS and not any(story.at(finding.span, one.at.span) for one in story.raised):
        places = [place for item in story.reading.runs for place in (item.at.span, *item.at.stack)]
        unknown = any(item.at.function == "<unknown>" for item in story.reading.runs)
        if not unknown and not any(story.at(finding.span, place) for place in places):
            # `if again: loss.backward()` is one line. The first calls of every line are on the tape.
            return Evidence(
                "not-reached", f"the line ran {times(ran)}, its backward did not ({end_text(story)})", None,
                {"runs": ran},
            )  # fmt: skip
    return _it_did_not_happen(story, finding, "raised nothing")


def _it_did_not_happen(story: Story, finding: Finding, instead: str) -> Evidence:
    """Return refuted where the line ran often enough or the program to its end, else not reached."""
    ran = story.count(finding.span)
    if not ran:
        return _not_reached(story, finding)
    for raised in story.raised:
        if story.at(finding.span, raised.at.span):
            return Evidence("refuted", f"it failed for another reason: {short(raised.message)}", iteration(raised.at))
    if story.whole or ran >= MIN_RUNS:
        return Evidence("refuted", f"the line ran {times(ran)} and {instead}", None, {"runs": ran})
    return Evidence(
        "not-reached", f"the line ran {times(ran)} and {instead}, but the run ended early ({end_text(story)})", None,
        {"runs": ran},
    )  # fmt: skip


def never_ran(story: Story, finding: Finding) -> Evidence | None:
    """Return not reached where the lines of a finding never ran, or never within the loop that it is about."""
    if not story.ran(finding.span):
        return _not_reached(story, finding)
    loop = loop_of(finding)
    if loop is not None and outside_its_loop(story, finding):
        return Evidence(
            "not-reached",
            f"line {finding.span.line} ran, but not within the loop on {line(loop, finding.span)} ({end_text(story)})",
        )
    return None


def _not_reached(story: Story, finding: Finding) -> Evidence:
    return Evidence("not-reached", f"line {finding.span.line} did not run ({end_text(story)})")


def _kept(story: Story, finding: Finding) -> Evidence | None:
    ran = story.count(finding.span)
    holder = holder_of(finding)
    mine = [series for series in story.held.values() if holds_there(story, series, finding)]
    growing = [series for series in mine if series.grows] or [series for series in mine if series.grows_in_steps]
    if growing:
        # A loop within the one of the finding grows, too, by what one iteration of that adds.
        named = {label.span for label in finding.labels if label.role == "path"}
        series = max(
            growing,
            key=lambda item: (
                last_name(item.holder) == last_name(holder),
                any(story.is_loop(item.loop, span) for span in named),
                len(item.samples),
            ),
        )
        last = series.samples[-1]
        detail = (
            f"`{series.holder}` kept {series.text()} graph nodes after iterations {series.text('index')} "
            f"of the loop on line {loop_line(story, series.loop)}"
        )
        if len(series.samples) > 5:
            detail += f", {last.nodes} after iteration {last.index}"
        detail += f", and {bytes_text(last.size)} of saved tensors" if last.size else ", and no saved tensors"
        if last.own >= _WORTH_TELLING:
            detail += f"; the kept tensors themselves are {bytes_text(last.own)}"
        return Evidence("confirmed", detail, last.index, series.measured())
    if not ran:
        return _not_reached(story, finding)
    loops = story.loops_of(finding.span)
    levels = [series for loop, series in story.live.items() if loop in loops and len(series.samples) >= 2]
    if levels and ran >= MIN_RUNS and _level(story, levels):
        series = next((series for series in levels if series.flat), levels[0])
        return Evidence(
            "refuted",
            f"the line ran {times(ran)} and what is alive stayed the same: {series.text()} graph nodes after "
            f"iterations {series.text('index')}",
            None, {"nodes": [sample.nodes for sample in series.samples]},
        )  # fmt: skip
    return None


def _level(story: Story, levels: Sequence[Series]) -> bool:
    """Return whether what is alive is no more at the end of loops that run again and again than at their beginning."""
    if all(series.flat for series in levels):
        return True
    if any(series.grows or series.grows_in_steps for series in levels):
        return False
    runs: dict[Span | None, list[Series]] = {}
    for series in levels:
        known = story.reading.loops.get(series.loop)
        runs.setdefault(known.event.at.span if known is not None else None, []).append(series)
    return all(
        all(series.flat for series in of_loop)
        or (len(of_loop) > 1 and of_loop[-1].flat and of_loop[-1].samples[-1].nodes <= of_loop[0].samples[0].nodes)
        for of_loop in runs.values()
    )


def _chain(story: Story, finding: Finding) -> Evidence | None:
    runs = story.runs_at(finding.span)
    loop = loop_of(finding)
    numbers = {number for item in runs for number, _ in item.at.iteration}
    if loop is not None and is_statement(story, loop):
        # Another loop around the same line may be one whose iterations share nothing.
        numbers = {number for number in numbers if story.is_loop(number, loop)}
        runs = [item for item in runs if any(number in numbers for number, _ in item.at.iteration)]
    walked: dict[int, dict[int, int]] = {}
    for item in runs:
        size = len(story.reading.graph_nodes(item.traversal.executed))
        for number, index in item.at.iteration:
            if number in numbers:
                sizes = walked.setdefault(number, {})
                sizes[index] = max(size, sizes.get(index, 0))
    for number, sizes in walked.items():
        counts = list(sizes.values())
        if len(counts) >= MIN_RUNS and all(a < b for a, b in zip(counts, counts[1:], strict=False)):
            shown = ", ".join(map(str, counts[:5])) + (f", … {counts[-1]}" if len(counts) > 5 else "")
            first, last = min(sizes), max(sizes)
            return Evidence(
                "confirmed",
                f"the call walked {shown} graph nodes in iterations {first} to {last} "
                f"of the loop on line {loop_line(story, number)}",
                last, {"nodes": counts},
            )  # fmt: skip
    if not runs:
        return _not_reached(story, finding) if not story.count(finding.span) else None
    for raised in story.raised:
        if story.at(finding.span, raised.at.span):
            return Evidence("refuted", f"the call failed instead: {short(raised.message)}", iteration(raised.at))
    if len(runs) >= MIN_RUNS:
        counts = [len(story.reading.graph_nodes(item.traversal.executed)) for item in runs]
        return Evidence(
            "refuted",
            f"the call ran {times(len(runs))} and walked {', '.join(map(str, counts[:5]))} graph nodes: no growth",
            None, {"nodes": counts},
        )  # fmt: skip
    return None


def _cycle(story: Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.runs_at(finding.span) if item.backward.create == "yes"]
    if not runs:
        return _not_reached(story, finding) if not story.count(finding.span) else None
    series = _alive_over(story, finding, runs)
    growing = [one for one in series if one.grows and len(one.samples) >= MIN_RUNS]
    if growing:
        most = max(growing, key=lambda one: len(one.samples))
        last = most.samples[-1]
        return Evidence(
            "confirmed",
            f"{most.text()} graph nodes were alive after iterations {most.text('index')} "
            f"of the loop on line {loop_line(story, most.loop)}",
            last.index, most.measured(),
        )  # fmt: skip
    flat = [one for one in series if one.flat]
    if flat and len(flat) == len([one for one in series if len(one.samples) > 1]):
        shown = max(flat, key=lambda one: len(one.samples))
        return Evidence(
            "refuted",
            f"the graph nodes alive after each iteration stayed the same: {shown.text()}", None, shown.measured(),
        )  # fmt: skip
    return None


def _alive_over(story: Story, finding: Finding, runs: Sequence[Run]) -> list[Series]:
    """Return what was alive over the iterations of the finding's loop: after each of them, and where each of them had
    come to the same iteration of a loop within it.
    """
    loop = loop_of(finding)
    numbers = {event.id for event in story.runs_of_loop(loop)} if loop is not None else set()
    if loop is None or not (numbers or is_statement(story, loop)):
        # A library's loop may be known by another place.
        numbers = {number for item in runs for number, _ in item.at.iteration}
    found: dict[tuple[Any, ...], Series] = {}
    for site, nodes in story.levels:
        for depth, (number, index) in enumerate(site.iteration):
            if number not in numbers:
                continue
            inner = tuple((story.place_of_loop(one), at) for one, at in site.iteration[depth + 1 :])
            series = found.setdefault((number, inner), Series(number, "", site))
            series.samples.append(Sample(index, nodes))
    return list(found.values())


def _needless(story: Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.runs_at(finding.span) if item.backward.retain != "no"]
    if not runs:
        ran = story.runs_at(finding.span)
        if ran:
            return Evidence("refuted", f"the call ran {times(len(ran))} and retained nothing")
        return _not_reached(story, finding)
    ids = {item.backward.id for item in runs}
    kept = [(item, story.kept[item.backward.id]) for item in runs if item.backward.id in story.kept]
    for later in story.reading.runs:
        again = [node for node, earlier in later.traversal.retraversed.items() if ids & set(earlier)]
        if again:
            place = f"line {later.at.line}" + (" (this same call)" if story.at(finding.span, later.at.span) else "")
            return Evidence(
                "refuted", f"the retained graph was needed: the call on {place} walked {len(again)} of its nodes again",
                iteration(later.at), {"nodes": len(again), **_kept_measure(kept)},
            )  # fmt: skip
    if any(raised.backward in ids for raised in story.raised):
        return None
    if story.whole or (len(runs) >= MIN_RUNS and story.end.how == "stopped"):
        held = sum(1 for node in runs[-1].traversal.executed if story.reading.ledger.nodes.get(node) is not None)
        return Evidence(
            "confirmed",
            f"{_ran(story, finding, runs)} and no later call walked a node with saved tensors of the graph it retained "
            f"({held} nodes each time)" + _kept_text(story, finding, kept),
            None, {"runs": len(runs), "nodes": held, **_kept_measure(kept)},
        )  # fmt: skip
    return None


def _kept_text(story: Story, finding: Finding, kept: Sequence[tuple[Run, Kept]]) -> str:
    """Return how much the retained graphs kept and until when, the one call for all that kept most."""
    if not kept:
        return ""
    most = max(one.size for _, one in kept)
    if not most:
        return "; it kept no tensors but parameters"
    each = "each time " if len(kept) > 1 and all(one.size == most for _, one in kept) else ""
    text = f"; {each}it kept {'' if each or len(kept) == 1 else 'up to '}{bytes_text(most)} of saved tensors"
    ends = {_until(story, finding, run, one) for run, one in kept[:-1] or kept}
    return text + ends.pop() if len(ends) == 1 else text


def _until(story: Story, finding: Finding, run: Run, kept: Kept) -> str:
    """Return where the graph of a retaining call went, seen from that call."""
    end = kept.gone_at
    if end is None:
        return f", still there when {end_text(story)}" if story.whole else ""
    there = line(end.span, finding.span)
    before = dict(run.at.iteration)
    apart = next((index - before[loop] for loop, index in end.iteration if before.get(loop, index) != index), 0)
    if apart:
        return f" until {there} of the next iteration" if apart == 1 else f" until {there}, {apart} iterations later"
    if story.at(run.at.span, end.span):
        return " until that line was done"
    return f" until {there}"


def _kept_measure(kept: Sequence[tuple[Run, Kept]]) -> dict[str, Any]:
    """Return the same as data: bytes and seconds are the most of any call."""
    if not kept:
        return {}
    measured: dict[str, Any] = {"kept_bytes": max(one.size for _, one in kept)}
    seconds = [one.seconds for _, one in kept if one.seconds is not None]
    if seconds:
        measured["kept_seconds"] = max(seconds)
    lines = {one.gone_at.span.line for _, one in kept if one.gone_at is not None}
    if lines:
        measured["released_on_lines"] = sorted(lines)
    return measured


def _ran(story: Story, finding: Finding, runs: Sequence[Run]) -> str:
    """Return how often a call ran; most calls of a long run are not on the tape, so that its line tells more."""
    counted = story.count(finding.span)
    if counted > len(runs):
        return f"the line ran {times(counted)}"
    return f"the call ran {times(len(runs))}" + (" or more" if story.passed and not story.hits else "")


def _missing_create(story: Story, finding: Finding) -> Evidence | None:
    for raised in story.raised:
        if MissingCreateGraph.code in story.codes(raised) and story.at(finding.span, raised.at.span):
            return Evidence("confirmed", raised_text(story, raised), iteration(raised.at), raised_measure(raised))
    ran = story.count(finding.span)
    if not ran:
        return _not_reached(story, finding)
    facts = finding.facts
    if finding.severity == "error" or (isinstance(facts, MissingCreateGraphFacts) and facts.kind == "raises"):
        return _it_did_not_happen(story, finding, "raised nothing")
    places = [label.span for label in finding.labels if label.role == "cut"]
    grads = [
        item for item in story.reading.runs if not places or any(story.at(place, item.at.span) for place in places)
    ]
    taken = [item for item in grads if item.backward.call == "grad" or places]
    without = [item for item in taken if item.backward.create == "no"]
    if without and any(item.backward.accumulates for item in story.reading.runs):
        lines = ", ".join(sorted({str(item.at.line) for item in without}))
        return Evidence(
            "confirmed",
            f"the gradient that it uses (line {lines}) was taken {times(len(without))} and never had a graph",
            iteration(without[0].at), {"runs": ran},
        )  # fmt: skip
    if taken:
        return Evidence("refuted", "the gradient was taken with `create_graph=True` each time")
    return None


def _cut(story: Story, finding: Finding) -> Evidence | None:
    ran = story.count(finding.span)
    if not ran:
        return _not_reached(story, finding)
    reading, leaves = story.reading, story.reading.ledger.leaves
    named = set(finding.facts.parameters)
    mine = its_optimizers(story, finding)
    if isinstance(finding.facts, GradientCutFacts) and finding.facts.how == "frozen":
        elsewhere = {one.at.span for one in reading.optimizers.values()} - {one.at.span for one in mine}
        groups = [group for group in story.frozen_groups if not mine or group[0].span not in elsewhere]
        _, count, steps = max(groups, key=lambda group: group[1:], default=(None, 0, 0))
        if steps >= 2:
            some = "1 parameter" if count == 1 else f"{count} parameters"
            return Evidence(
                "confirmed", f"{some} of an optimizer stood frozen in groups of their own at {steps} steps or more",
                None, {"parameters": sorted(named), "steps": steps},
            )  # fmt: skip
    numbers = {one.id for one in mine}
    own = {leaf for one in mine for leaf in one.params} if mine else set(leaves)
    never = {number: steps for number, steps in story.without_gradient.items() if number in leaves}
    if not story.whole and not never:
        never = _never_reached(story)
    others = never
    never = {number: steps for number, steps in never.items() if number in own}
    if named:
        there = [n for n in own if n in leaves and any(matches(leaves[n].name, name) for name in named)]
        if there:
            # Another model's parameters, or other parameters of this one, say nothing of these.
            never = {number: never[number] for number in there if number in never}
    if never:
        names = [leaves[number].name or f"parameter {number}" for number in never]
        steps = max(never.values())
        return Evidence(
            "confirmed", f"{names_text(names)} never had a gradient in {steps_text(steps)}", None,
            {"parameters": names, "steps": steps},
        )  # fmt: skip
    if len([step for _, step in reading.steps if not mine or step.optimizer in numbers]) >= 2:
        if not others:
            return Evidence("refuted", "every parameter of every optimizer had a gradient in some step of it")
        if mine:
            return Evidence("refuted", "these parameters had a gradient in some step of their optimizer")
        return None
    if not story.whole:
        return Evidence(
            "not-reached",
            f"the line ran {times(ran)}, but the run ended before an optimizer had stepped twice ({end_text(story)})",
            None, {"runs": ran},
        )  # fmt: skip
    return None


def _checkpoint(story: Story, finding: Finding) -> Evidence | None:
    evidence = _cut(story, finding)
    named = finding.facts.parameters
    if evidence is not None and evidence.verdict == "confirmed":
        # Others that have no gradient say nothing of these.
        if not any(matches(name, mine) for name in evidence.measured["parameters"] for mine in named):
            return None
    if evidence is None and not story.reading.steps:
        # Without a step nothing looks at the parameters; whether the call recorded a graph shows in its node.
        ran, reading = story.count(finding.span), story.reading
        nodes = [node for node in reading.ledger.nodes.values() if node.op.startswith("CheckpointFunction")]
        if ran >= 2 and len(reading.runs) >= 2 and not any(story.at(finding.span, node.at.span) for node in nodes):
            return Evidence(
                "confirmed", f"the checkpoint was called {times(ran)} and recorded no graph", None, {"runs": ran}
            )
    return evidence


def _never_reached(story: Story) -> dict[int, int]:
    reached = {number for item in story.reading.runs if item.backward.accumulates for number in item.traversal.executed}
    stepped: dict[int, int] = {}
    for _, step in story.reading.steps:
        optimizer = story.reading.optimizers.get(step.optimizer)
        for leaf in optimizer.params if optimizer is not None else ():
            stepped[leaf] = stepped.get(leaf, 0) + 1
    return {leaf: steps for leaf, steps in stepped.items() if leaf not in reached and steps >= 2}


def _stale(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return _not_reached(story, finding)
    leaves = story.reading.ledger.leaves
    found = [(leaf, at) for leaf, at in story.stale if story.at(finding.span, at.span)]
    if found:
        names = [leaves[leaf].name if leaf in leaves else "" for leaf, _ in found]
        named = list(dict.fromkeys(name for name in names if name))
        shown = names_text(named, len(names) - len([name for name in names if name]))
        had = "had" if len(names) > 1 else "still had"
        return Evidence(
            "confirmed", f"{shown} {had} the gradient that a step had used when this backward added to it",
            iteration(found[0][1]), {"parameters": named},
        )  # fmt: skip
    if story.compared:
        return Evidence(
            "refuted",
            f"the gradients of {steps_text(story.compared)} were compared with those of the next: none was used twice",
            None, {"steps": story.compared},
        )  # fmt: skip
    return None


def _needless_graph(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return _not_reached(story, finding)
    seen = [
        each for at, each in story.watched_loops.items() if story.at(finding.span, at.span) and each.get("module-calls")
    ]
    # One loop may train where it is called from one place, and evaluate from another.
    unused = [each for each in seen if each["recorded-calls"] and not each["walked-graphs"]]
    if unused:
        worst = max(unused, key=lambda each: each["graph-bytes"])
        calls = _calls(worst["recorded-calls"])
        return Evidence(
            "confirmed",
            f"no backward walked the graphs of the {calls} that were looked at; each kept up to "
            f"{bytes_text(worst['graph-bytes'])} of saved tensors",
            None,
            {
                "calls": worst["recorded-calls"],
                "nodes": worst["graph-nodes"],
                "saved_bytes": worst["graph-bytes"],
            },
        )
    if any(each["walked-graphs"] for each in seen):
        walked = sum(each["walked-graphs"] for each in seen)
        return Evidence("refuted", f"a backward walked {walked} of the graphs that modules built in this loop")
    if seen:
        calls = _calls(sum(each["module-calls"] for each in seen))
        return Evidence("refuted", f"the {calls} that were looked at recorded no graph")
    return None


def _calls(count: int) -> str:
    return "1 module call" if count == 1 else f"{count} module calls"


def _left_out(story: Story, finding: Finding) -> Evidence | None:
    if not story.reading.steps:
        return _not_reached(story, finding) if not story.count(finding.span) else None
    leaves = story.reading.ledger.leaves
    found = story.left_out
    named = [name for name in finding.facts.parameters if name]
    reached = reached_there(story, finding)
    if reached is not None:
        found = {number: steps for number, steps in found.items() if number in reached or number not in leaves}
    mine = {n: s for n, s in found.items() if n in leaves and any(matches(leaves[n].name, name) for name in named)}
    # What no variable leads to has no name in the run.
    mine = mine or {n: s for n, s in found.items() if n not in leaves or not leaves[n].name}
    if mine:
        names = [leaves[number].name for number in mine if number in leaves and leaves[number].name] or named
        verb = "was" if len(mine) == 1 else "were"
        shown = names_text(names, max(len(mine) - len(names), 0))
        return Evidence(
            "confirmed",
            f"{shown} had a gradient at {max(mine.values())} steps or more, "
            f"{verb} in no optimizer and did not change",
            None, {"parameters": names, "steps": max(mine.values())},
        )  # fmt: skip
    # Leaves that are no parameters are not looked at where the program reads no gradient.
    looked_at = [one for one in leaves.values() if one.parameter and (reached is None or one.id in reached)]
    seen = all(any(matches(one.name, name) for one in looked_at) for name in named)
    if story.compared >= 2 and seen:
        return Evidence("refuted", "what had gradients was stepped by an optimizer, or changed in another way")
    return None


def _scaled(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return _not_reached(story, finding)
    seen = [(number, scale) for at, number, scale in story.scales if story.at(finding.span, at.span)]
    named = finding.facts.parameters
    leaves, optimizers = story.reading.ledger.leaves, story.reading.optimizers
    mine = {
        number
        for number, optimizer in optimizers.items()
        if any(leaf in leaves and matches(leaves[leaf].name, name) for leaf in optimizer.params for name in named)
    }
    if mine:
        # Of a line in a loop over several optimizers the one with these parameters tells, where it had a number yet.
        seen = [(number, scale) for number, scale in seen if number in mine or number not in optimizers]
    scale = max((scale for _, scale in seen), default=0.0)
    if scale > 1:
        return Evidence(
            "confirmed", f"the gradients were {scale:,.0f} times too large when this line ran", None, {"scale": scale}
        )
    if seen:
        return Evidence("refuted", "the gradients had been unscaled, or the scaler was off, when this line ran")
    return None


def _discarded(story: Story, finding: Finding) -> Evidence | None:
    if not story.count(finding.span):
        return _not_reached(story, finding)
    leaves = story.reading.ledger.leaves
    found = [(leaf, at, count) for leaf, at, count in story.discarded if story.at(finding.span, at.span)]
    used = sum(count for at, count in story.gradients_used if story.at(finding.span, at.span))
    if found and found[0][2] >= used:
        names = [leaves[leaf].name or f"parameter {leaf}" for leaf, _, _ in found if leaf in leaves]
        times_of = f"in {found[0][2]} of {found[0][2] + used} calls" if used else times(found[0][2])
        return Evidence(
            "confirmed", f"what this call gave {names_text(names)} was cleared {times_of} before a step had it",
            iteration(found[0][1]), {"parameters": names, "calls": found[0][2], "used": used},
        )  # fmt: skip
    if used:
        return Evidence("refuted", f"a step used what this call gave, {times(used)} of the first", None, {"used": used})
    return None


def _term(story: Story, finding: Finding) -> Evidence | None:
    runs = [item for item in story.reading.runs if item.backward.accumulates]
    if not story.count(finding.span):
        return _not_reached(story, finding)
    nodes = story.reading.ledger.nodes
    constant = isinstance(finding.facts, TermWithoutEffectFacts) and finding.facts.constant
    numbers = _numbers_added(story, finding) if constant else 0
    merges = found = 0
    for item in runs:
        if constant:
            # Of a constant term nothing is on the tape but that the sum has one input only.
            here = [
                nodes[number] for number in item.traversal.executed
                if number in nodes and plain(nodes[number].op) in MERGES
                and story.at(finding.span, nodes[number].at.span)
            ]  # fmt: skip
            merges, found = merges + bool(here), found + (sum(len(node.inputs) == 1 for node in here) > numbers)
            continue
        terms = [term for term in terms_of(story.reading, item) if story.at(finding.span, term.merge.at.span)]
        if terms:
            lost = any(term.reaches == "no" or _of_new_leaves(story, term) for term in terms)
            merges, found = merges + 1, found + lost
    if not merges:
        return None
    if found and not constant:
        return Evidence(
            "confirmed",
            f"in {found} of {merges} backward calls no gradient of a term came to what was stepped next", None,
            {"runs": merges, "without": found},
        )  # fmt: skip
    if found == merges:
        return Evidence(
            "confirmed", f"in {found} of {merges} backward calls a term of the sum had no graph", None,
            {"runs": merges, "without": found},
        )  # fmt: skip
    return None if found else Evidence("refuted", f"every term had a gradient that a step used, {times(merges)}")


def _of_new_leaves(story: Story, term: Term) -> bool:
    """Return whether a term leads to nothing but leaves that are no parameters and in no optimizer: a value that was
    made a leaf again.
    """
    ledger = story.reading.ledger
    if term.node is None:
        return False
    below = ledger.ancestry([term.node])
    leaves = [ledger.leaves[number] for number in below if number in ledger.leaves]
    stepped = gradients_of(story.reading).steppable
    return bool(leaves) and not any(
        leaf.parameter or leaf.id in stepped or ledger.leads_anywhere(leaf.id) for leaf in leaves
    )


def _numbers_added(story: Story, finding: Finding) -> int:
    """Return how many numbers the lines of a finding add by themselves: `loss + 1e-8`."""
    try:
        tree = read_source(story.file(finding.span.file)).tree
    except SourceError:
        return 0
    span = finding.span
    return sum(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, (ast.Add, ast.Sub))
        and any(isinstance(getattr(side, "operand", side), ast.Constant) for side in (node.left, node.right))
        for node in ast.walk(tree)
        if span.line <= getattr(node, "lineno", 0) <= max(span.end_line, span.line)
    )


DECIDE: dict[str, Callable[[Story, Finding], Evidence | None]] = {
    **dict.fromkeys(RAISING, _by_exception),
    GraphKeptAcrossIterations.code: _kept,
    GrowingChain.code: _chain,
    CreateGraphCycle.code: _cycle,
    NeedlessRetainGraph.code: _needless,
    NeedlessGraph.code: _needless_graph,
    MissingCreateGraph.code: _missing_create,
    GradientCut.code: _cut,
    GradientDiscarded.code: _discarded,
    StaleGradient.code: _stale,
    UntrainedParameter.code: _left_out,
    ScaledGradientRead.code: _scaled,
    CheckpointWithoutGradient.code: _checkpoint,
    TermWithoutEffect.code: _term,
}
