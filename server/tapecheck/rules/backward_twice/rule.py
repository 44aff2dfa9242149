"""TAPE101, backward-twice."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.backward_twice.facts import BackwardTwiceFacts
from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.origin import Origin, trace
from tapecheck.rules.path import always, path_labels
from tapecheck.rules.raising import failing
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.refusal import notes_of_failure
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import built_text, called_from, headline, join, line, quoted, when
from tapecheck.tape import Backward, Decision, Freed, Span, Step


class BackwardTwice(Rule):
    """A backward reaches nodes whose saved tensors an earlier backward freed."""

    code = "TAPE101"
    name = "backward-twice"
    severity = "error"
    raises = True
    summary = "A backward runs through a graph that an earlier backward has freed"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        return [
            self._finding(readings, reading, run, problem)
            for reading, run, problem in failing(readings, Freed)
            if not _retained_otherwise(readings, reading, run, problem.freed_by)
            and not _retained_by_hidden_code(readings, reading, run, problem.freed_by)
        ]

    def _finding(self, readings: Sequence[Reading], reading: Reading, run: Run, problem: Freed) -> Finding:
        home = run.at.span
        node, freeing = problem.node, reading.run_of[problem.freed_by.id]
        origin = trace(reading, run, node, freeing)
        step = reading.step_between(freeing.position, run.position)
        certain = always(readings, reading, run)
        time = when(freeing.at, run.at)
        labels = [Label(node.at.span, built_text(node), "built")]
        labels += called_from(reading, node.at, run.at)
        # A call that stands twice on the way to its own failure frees first and fails later.
        again = f"{time or ' the time before'}, needed again now" if freeing.at.span == home else time
        labels.append(Label(freeing.at.span, f"freed here{again}", "freed"))
        labels += origin.labels
        labels += path_labels(readings, reading, run)
        labels += called_from(reading, run.at, run.at)
        detach_first = origin.kind == "shared" and _first_needs_no_gradient(reading, origin, step)
        return Finding(
            self.code, self.name, self.severity, home, _headline(origin, run, certain),
            _help(reading, origin, freeing, run, step, detach_first),
            tuple(labels), certain,
            facts=BackwardTwiceFacts(
                stored=origin.at.span if origin.at is not None else None, kind=origin.kind, name=origin.name,
                summed=origin.summed, freed_roots=tuple(root.name for root in freeing.backward.roots),
                detach_first=detach_first, differentiated=_differentiates(reading, freeing, run),
            ),
            notes=notes_of_failure(reading, run),
        )  # fmt: skip


def _retained_otherwise(readings: Sequence[Reading], reading: Reading, run: Run, freeing: Backward) -> bool:
    """Return whether a condition nobody knows the answer to lets a call that retains run instead, in any iteration.

    `if i < last: grad(loss, w, retain_graph=True)`, `else: grad(loss, w)`: the graph is freed by the last iteration,
    and that the loop goes on after it is what the program's own condition is there to exclude.
    """
    if not run.at.iteration or freeing.at.iteration == run.at.iteration:
        return False
    here, mine = freeing.at.span, _indexes(reading, freeing.at.span)
    retaining = (call for other in readings for call in other.runs if call.backward.retain_argument == "yes")
    instead = {call.at.span for call in retaining if call.at.span != here and _index(call) in mine}
    return any(run.at.span in (here, span) and _in_turns(readings, here, span) for span in instead)


def _in_turns(readings: Sequence[Reading], one: Span, other: Span) -> bool:
    """Return whether two calls never run in one iteration, though some way runs both: a flag that is the same in all
    iterations would let one of them run in all.
    """
    ways = [(_indexes(reading, one), _indexes(reading, other)) for reading in readings]
    return all(mine.isdisjoint(theirs) for mine, theirs in ways) and any(mine and theirs for mine, theirs in ways)


def _retained_by_hidden_code(readings: Sequence[Reading], reading: Reading, run: Run, freeing: Backward) -> bool:
    """Return whether code that is not visible says if the freeing call retains its graph, and the program runs where it
    does: that is what the argument is there for.
    """
    asked = _retaining_answers(reading, freeing.at.span)
    return any(position < run.position for position, _ in asked) and any(
        all(call.problem is None for call in calls) and all(taken for _, taken in answers)
        for other in readings
        if (calls := other.runs_by_site.get(run.at.span)) and (answers := _retaining_answers(other, freeing.at.span))
    )


def _retaining_answers(reading: Reading, call: Span) -> list[tuple[int, bool]]:
    """Return how hidden code has answered whether a call retains its graph, with the positions."""
    return [(at, decision.taken) for at, decision in reading.decisions if _says_what_is_retained(decision, call)]


def _says_what_is_retained(decision: Decision, call: Span) -> bool:
    flags = ("retain_graph", "create_graph")
    return decision.at.span == call and decision.text in flags and decision.hangs_on == "condition"


def _indexes(reading: Reading, span: Span) -> set[tuple[int, ...]]:
    return {_index(run) for run in reading.runs_by_site.get(span, ())}


def _index(run: Run) -> tuple[int, ...]:
    """Return which iterations a call ran in, as every way through the program numbers them."""
    return tuple(index for _, index in run.at.iteration)


def _headline(origin: Origin, run: Run, certain: bool) -> str:
    second = "second backward through" if certain else "possible second backward through"
    if len(origin.together) == 2:
        both = [f"{second} the graphs of `{{}}` and `{{}}`", f"{second} `{{}}` and `{{}}`"]
        return headline(both, *origin.together)
    root = run.backward.roots[0].name if run.backward.roots and origin.kind in ("same", "shared") else ""
    if name := origin.name or root:
        part = " part of" if not origin.name and origin.kind == "shared" else ""
        return headline(f"{second}{part} the graph of `{{}}`", name)
    return f"{second} {_NAMELESS.get(origin.kind, 'a graph that is already freed')}"


_NAMELESS = {
    "carried": "the graph of an earlier iteration",
    "outside": "a graph that was built before the loop",
}


def _first_needs_no_gradient(reading: Reading, origin: Origin, step: Step | None) -> bool:
    """Return whether the step after the freeing backward updates nothing that the shared value was computed from."""
    updated = _updated(reading, step)
    return updated is not None and origin.node is not None and updated.isdisjoint(reading.below([origin.node]))


def _updated(reading: Reading, step: Step | None) -> set[int] | None:
    """Return what a step updates, None where that is not known."""
    optimizer = reading.optimizers.get(step.optimizer) if step is not None else None
    return set(optimizer.params) if optimizer is not None and optimizer.complete == "yes" else None


def _needs_no_gradient(reading: Reading, freeing: Run, run: Run, step: Step | None) -> list[str]:
    """Return what the second backward shares with the first, where the step between has updated all that it is computed
    from and the second one is there for what another optimizer has; nothing where a part of it has no name.
    """
    own = _updated(reading, step)
    if own is None or step is None:
        return []
    shared, besides = _shared(reading, freeing, run)
    below = reading.below(shared) & reading.ledger.leaves.keys()
    besides -= below
    others = {leaf for number, made in reading.optimizers.items() if number != step.optimizer for leaf in made.params}
    if not below or not below <= own or not besides.isdisjoint(own) or besides.isdisjoint(others):
        return []
    names = [(reading.name(number, run.position) or ("",))[0] for number in shared]
    return list(dict.fromkeys(names)) if all(names) else []


def _shared(reading: Reading, freeing: Run, run: Run) -> tuple[list[int], set[int]]:
    """Return the first nodes of a backward that another one has run through, and the leaves that it comes to beside."""
    met = run.backward.root_nodes
    seen = set(met)
    for number in met:
        further = () if number in freeing.executed else reading.sources(number)
        met += [one for one in further if one not in seen]
        seen.update(further)
    shared = [number for number in met if number in reading.ledger.nodes and number in freeing.executed]
    return shared, reading.ledger.leaves.keys() & seen


def _help_carried(reading: Reading, origin: Origin, home: Span) -> str:
    if origin.elements == "list":
        return (
            f"`{origin.name}` still has values of an earlier backward: if it is the state of the next iteration, "
            f"`.detach()` each of them; if it collects them, empty it once its backward has run, "
            f"`{origin.name}.clear()`, or store them detached where only their numbers are needed; if a part of "
            "them is used again, store what they are computed from and compute them anew for each backward"
        )
    if origin.summed:
        return (
            "call backward on the loss of this iteration alone, or add up the losses in the loop and call backward "
            "once after it"
        )
    if not origin.name:
        return f"{origin.between(home)}: `.detach()` what is kept for the next one, each element of a tuple or list"
    if _replaces_stepped(reading, origin):
        return (
            f"an optimizer steps `{origin.name}`, which has to stay that tensor: write the new value into it under "
            f"`torch.no_grad()`, `{origin.name}.copy_(...)` or the in-place form of what changes it"
        )
    return f"{origin.between(home)}, {origin.cutting}; gradients then stop at the iteration's start"


def _help(reading: Reading, origin: Origin, freeing: Run, run: Run, step: Step | None, detach_first: bool) -> str:
    """Return what to do about a graph that two backwards walk, by what they share it through."""
    if origin.kind == "carried":
        return _help_carried(reading, origin, run.at.span)
    if origin.kind == "outside":
        return _help_outside(reading, origin, freeing, run, step)
    where = line(freeing.at.span, run.at.span)
    in_place = freeing.at.span == run.at.span
    if origin.kind == "same":
        if in_place:
            return "call backward once for each forward pass, or compute the loss again before each backward"
        return (
            "call backward once; if two backwards on one graph are really meant, pass `retain_graph=True` to the one "
            f"on {where}"
        )
    if detach_first:
        return _help_detached(reading, origin, where)
    parts = _needs_no_gradient(reading, freeing, run, step)
    if parts:
        made, given = join(f"`{name}`" for name in parts), join(f"`{name}.detach()`" for name in parts)
        was = "were" if len(parts) > 1 else "was"
        return f"what {made} {was} computed from has had its step: give this loss {given}"
    if in_place:
        return (
            f"compute {quoted(origin.name, 'what both have in common')} anew before each backward, or add the losses "
            "and call backward once"
        )
    stepped = step is not None and _stepped_on(reading, run)
    if "grad" in (freeing.backward.call, run.backward.call):
        return _help_gradient(reading, freeing, run, where, stepped=stepped)
    return _help_losses(reading, freeing, run, step, where, stepped=stepped)


def _help_detached(reading: Reading, origin: Origin, where: str) -> str:
    """Return what to do where the first backward is not for what both share, which may be a part of something named."""
    if origin.name and not (origin.node is not None and reading.elements_of(origin.name, origin.node)):
        return (
            f"the backward on {where} trains nothing that {origin.text} was computed from: give its loss "
            f"`{origin.name}.detach()`"
        )
    shared = f"the part of {origin.text} that both losses read" if origin.name else "what both losses are computed from"
    return f"the backward on {where} trains nothing below {shared}: `.detach()` it for the loss of that backward"


def _help_outside(reading: Reading, origin: Origin, freeing: Run, run: Run, step: Step | None) -> str:
    """Return what to do about a graph from before a loop."""
    if _several_losses(reading, freeing, run):
        return (
            "the losses of this loop share a graph: add them up in the loop and call backward once after it, or "
            "pass `retain_graph=True` to all but the last backward"
        )
    where = f" on {line(origin.at.span, run.at.span)}" if origin.at is not None else ""
    return (
        f"if {quoted(origin.name, 'what comes before the loop')}{where} is meant to be a constant there (a "
        "target, an old policy), `.detach()` it or compute it under `torch.no_grad()`; if it is to be "
        "trained, compute it anew inside the loop, so that each backward has a graph of its own"
        + ("" if step is not None else "; for several gradients of one forward pass, pass `retain_graph=True`")
    )


def _help_gradient(reading: Reading, freeing: Run, run: Run, where: str, *, stepped: bool) -> str:
    """Return what to do where one of the two is `autograd.grad`: its result is needed by itself, there is nothing to
    add up.
    """
    call = "`autograd.grad`" if freeing.backward.call == "grad" else "backward"
    if _differentiates(reading, freeing, run):
        return (
            f"pass `create_graph=True` to the {call} on {where}: the gradient that it takes goes into this loss, "
            "which learns from it only if it has a graph (it implies `retain_graph=True`)"
        )
    if stepped:
        return "run the forward again before this call: the step in between has changed what its graph saved"
    return f"pass `retain_graph=True` to the {call} on {where}: its graph is needed again here"


def _help_losses(reading: Reading, freeing: Run, run: Run, step: Step | None, where: str, *, stepped: bool) -> str:
    """Return what to do about the backwards of two losses; `stepped` says that a step changed what the second needs."""
    names = [one.backward.roots[0].name for one in (freeing, run) if one.backward.roots]
    advice = "add the losses and call backward once"
    retain = f"pass `retain_graph=True` to the backward on {where}"
    if all(names) and _is_part(reading, freeing, run):
        advice = f"call backward for one of the two: `{names[0]}` is a part of `{names[1]}`"
        return advice if stepped else f"{advice}; or {retain}"
    if all(names) and len(set(names)) == len(names):
        advice += f", `({' + '.join(names)}).backward()`"
    if step is None:
        return f"{advice}; or {retain}"
    if stepped:
        return f"{advice}, and step after it (with a step in between, `retain_graph=True` does not help)"
    return f"{advice}, and step after it; or {retain}: the step in between changes nothing that the second one needs"


def _is_part(reading: Reading, first: Run, second: Run) -> bool:
    """Return whether what one backward starts from is computed of what another one starts from: a sum of losses."""
    starts = {root.node for root in first.backward.roots}
    return bool(starts) and starts <= reading.below(second.backward.root_nodes)


def _differentiates(reading: Reading, freeing: Run, run: Run) -> bool:
    """Return whether what a backward starts from is made of the gradient that an earlier call took, as a constant."""
    if freeing.backward.call != "grad":
        return False
    terms = reading.constants_of(run) | {term for root in run.backward.roots for term in root.constant_terms}
    cuts = (reading.ledger.cuts[term] for term in terms & reading.ledger.cuts.keys())
    return any(cut.how == "grad" and cut.at == freeing.at for cut in cuts)


def _replaces_stepped(reading: Reading, origin: Origin) -> bool:
    """Return whether a value took the name of a leaf that an optimizer has, and was computed from that leaf alone."""
    if origin.node is None:
        return False
    leaves = reading.below((origin.node,)) & reading.ledger.leaves.keys()
    stepped = {leaf for made in reading.optimizers.values() for leaf in made.params}
    named = (bind.name for leaf in leaves for _, bind in reading.binds.get(leaf, ()))
    return len(leaves) == 1 and leaves <= stepped and origin.name in named


def _several_losses(reading: Reading, freeing: Run, run: Run) -> bool:
    """Return whether each iteration starts from a loss of its own that was computed before the loop."""
    roots = [run_.backward.roots[0].node for run_ in (freeing, run) if run_.backward.roots]
    if len(roots) < 2 or None in roots or roots[0] == roots[1]:
        return False
    sites = [reading.site(root) for root in roots if root is not None]
    return all(site is not None and len(site.iteration) < len(run.at.iteration) for site in sites)


def _stepped_on(reading: Reading, run: Run) -> bool:
    """Return whether an optimizer has changed a tensor that the graph of a failing backward saved."""
    ledger = reading.ledger
    nodes = reading.graph_nodes(reading.below(run.backward.root_nodes))
    saved = [one for number in nodes for one in ledger.nodes[number].saved if one.fact != "no"]
    changes = (change for one in saved for change in ledger.changes.get(one.storage, [])[one.version :])
    return any(change.optimizer is not None for change in changes)
