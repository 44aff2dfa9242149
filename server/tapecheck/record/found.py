"""What a recorded run finds by itself: findings on its tape, exceptions, parameters without a gradient."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tapecheck.record.constants import is_for_a_constant
from tapecheck.record.cuts import made_leaf, only_cut
from tapecheck.record.decided import verdict_on
from tapecheck.record.ends import raised_in, raised_text
from tapecheck.record.raised import UNUSED, codes_of
from tapecheck.record.scaled import scaled
from tapecheck.record.story import Story
from tapecheck.record.words import names_text, steps_text
from tapecheck.rules import ALL, RAISING, Evidence, Finding, Label
from tapecheck.rules import judge as judge_tapes
from tapecheck.rules.array_of_graph.rule import HEADLINE, ArrayOfGraph
from tapecheck.rules.backward_twice.rule import BackwardTwice
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.facts import Facts
from tapecheck.rules.finding import Severity
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.rules.gradient_cut.rule import GradientCut
from tapecheck.rules.gradient_discarded.facts import GradientDiscardedFacts
from tapecheck.rules.gradient_discarded.rule import GradientDiscarded
from tapecheck.rules.gradient_of_non_leaf.rule import HEADLINE as NON_LEAF
from tapecheck.rules.gradient_of_non_leaf.rule import GradientOfNonLeaf
from tapecheck.rules.gradients import gradients_of
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.leaf_inplace.rule import LeafInplace
from tapecheck.rules.missing_create_graph.rule import MissingCreateGraph, raising_headline
from tapecheck.rules.needless_retain_graph.facts import NeedlessRetainGraphFacts
from tapecheck.rules.reading import Run, grouped
from tapecheck.rules.rule import Rule
from tapecheck.rules.stale_gradient.facts import StaleGradientFacts, beside
from tapecheck.rules.stale_gradient.rule import StaleGradient
from tapecheck.rules.stale_saved_tensor.rule import StaleSavedTensor
from tapecheck.rules.untrained_parameter.rule import UntrainedParameter
from tapecheck.rules.words import Untraining, in_full, listed, merged
from tapecheck.source import SourceError, read_source
from tapecheck.source.nodes import Part, last_line, method_called, of_kind
from tapecheck.tape import Loop, Node, Optimizer, Raised, Site, Span

_MIN_STEPS = 2
_LOOKED_AT = 3
_SHIFTS = ("AddBackward0", "SubBackward0", "AddcmulBackward0", "AddcdivBackward0")
_OF_READS = (GradientDiscarded.code, UntrainedParameter.code)
"""Rules that a gradient which somebody reads silences: a recorded tape has no such reads."""
_NAMES = {rule.code: rule for rule in ALL}
HEADLINES = {
    BackwardTwice.code: "second backward through a graph that is already freed",
    StaleSavedTensor.code: "a saved tensor was modified in place before the backward",
    BackwardWithoutGraph.code: "this tensor has no graph: nothing to differentiate",
    LeafInplace.code: "in-place update of a leaf outside `torch.no_grad()`",
    GradientOfNonLeaf.code: NON_LEAF,
    ArrayOfGraph.code: HEADLINE,
    MissingCreateGraph.code: "gradient cannot be differentiated: missing `create_graph=True`",
    "TAPE602": "DDP waits for the gradient of unused parameters and raises",
    "TAPE603": "second backward through one call of a compiled model",
    "TAPE604": "double backward through a compiled model",
    "TAPE605": "DDP marks a parameter as ready twice and raises",
    "TAPE606": "a gradient by chosen tensors goes through a reentrant checkpoint",
    "TAPE607": "DDP cannot average gradients with a graph: `create_graph=True` raises",
    "TAPE608": "FSDP2 raises: parameters are used in shards",
    "TAPE611": "a compiled backward with donated buffers cannot retain its graph",
}

_HELP = {
    BackwardTwice.code: (
        "detach what is carried over from the earlier backward, or sum the losses and call backward once"
    ),
    StaleSavedTensor.code: "make the change after the backward that needs the old value, or change a copy",
    BackwardWithoutGraph.code: "remove the `.detach()`, `.data`, `.item()` or `no_grad` on the way to this tensor",
    LeafInplace.code: "make the change under `torch.no_grad()`",
    GradientOfNonLeaf.code: "call `requires_grad_()` on the value last, or make it an `nn.Parameter`",
    ArrayOfGraph.code: "take the tensor out of its graph first: `.detach()`",
    "TAPE602": (
        "make every output a part of the loss in each iteration, leave out what is not used, or pass "
        "`find_unused_parameters=True` to `DistributedDataParallel`"
    ),
    "TAPE603": "sum the losses and call backward once, or compile the parts separately",
    "TAPE604": "call the model that is not compiled where its gradient is differentiated",
    "TAPE605": "use each parameter once in a forward, with `use_reentrant=False` where it is checkpointed",
    "TAPE606": "pass `use_reentrant=False` to the checkpoint, or call `.backward()` without `inputs`",
    "TAPE607": (
        "drop `create_graph=True`, or take the gradients with `torch.autograd.grad(…, create_graph=True)` and average "
        "them with `torch.distributed.all_reduce`"
    ),
    "TAPE608": (
        "call the sharded model itself, and use its parameters in its `forward`, or `parameter.full_tensor()` outside "
        "of it"
    ),
    "TAPE611": (
        "retain the graph in the first backward of all as well, or set "
        "`torch._functorch.config.donated_buffer = False` before anything is compiled"
    ),
    MissingCreateGraph.code: "pass `create_graph=True` to the `autograd.grad` call that made it",
}


def found_by_run(story: Story) -> list[Finding]:
    """Return what the rules and the exceptions of the run say, marked as found by it."""
    judged = (one for one in judge_tapes([story.view]) if one.code not in _OF_READS and _is_seen(story, one))
    found = [finding for finding in judged if _confirmed(story, finding)]
    for raised in story.raised:
        if not any(story.is_about(raised, finding) for finding in found):
            made = _from_exception(story, raised)
            found += [made] if made is not None else []
    found += _used_again(story, found)
    cleared = _cleared(story)
    starved = _starved(story)
    lost = {name for one in cleared for name in one.facts.parameters}
    if starved is not None and not set(starved.facts.parameters) <= lost:
        found.append(starved)
    return merged(found + cleared + _frozen(story) + list(scaled(story)))


def _is_seen(story: Story, finding: Finding) -> bool:
    """Return whether a run shows what a finding of its tape needs: the exception, or what becomes of the value."""
    if finding.code in RAISING or finding.severity == "error":
        about = [raised for raised in story.raised if story.is_about(raised, finding)]
        without_graph = finding.code == BackwardWithoutGraph.code
        if not about or (without_graph and any(_gradient_without_graph(story, one) is not None for one in about)):
            return False
    facts = finding.facts
    if isinstance(facts, NeedlessRetainGraphFacts) and facts.call == "grad":
        # The run does not see what becomes of the gradient: `create_graph=True` may have been meant.
        return False
    return not (isinstance(facts, GraphKeptFacts) and not facts.backwarded and is_for_a_constant(story, finding))


def _used_again(story: Story, found: Sequence[Finding]) -> list[Finding]:
    """Return the backward calls that added to used gradients, where the tape lacks the steps that tell the rule so."""
    stale = [finding for finding in found if finding.code == StaleGradient.code]
    told = [span for one in stale for span in (one.span, *beside(one.facts))]
    places: dict[Span, list[str]] = {}
    for leaf, at in story.gradients.stale:
        if not any(story.at(span, at.span) for span in told):
            known = story.reading.ledger.leaves.get(leaf)
            places.setdefault(at.span, []).append(known.name if known is not None else "")
    return _of_leaves(
        story, StaleGradient, places, "this backward adds to gradients that a step has already used",
        "clear the gradients for each step: `optimizer.zero_grad()` before this backward", StaleGradientFacts,
    )  # fmt: skip


def _cleared(story: Story) -> list[Finding]:
    """Return the backward calls of the program's own whose gradients are cleared before any step, each time."""
    if not story.whole or not story.reading.steps:
        return []
    leaves = story.reading.ledger.leaves
    never = {leaf for leaf, steps in story.gradients.never.items() if steps >= _MIN_STEPS}
    if never - {leaf for leaf, _, _ in story.gradients.discarded}:
        # A loss that reaches none of the parameters it is meant for: what keeps it from them is told.
        return []
    gradients = gradients_of(story.reading)
    stepped = {leaf for position, step in story.reading.steps for leaf in gradients.params_at(step.optimizer, position)}
    places: dict[Span, list[str]] = {}
    for leaf, at, count in story.gradients.discarded:
        # What looks at a gradient may be all that it is computed for, unless a step is to use it that never had one.
        wanted = leaf in never or not story.gradients.looked_at
        if leaf in leaves.keys() & stepped and wanted and _is_unused(story, at.span, count):
            places.setdefault(at.span, []).append(story.leaf_text(leaf))
    return _of_leaves(
        story, GradientDiscarded, places, "the gradients of this backward are cleared before any step",
        "clear before this backward, or step before clearing", GradientDiscardedFacts,
    )  # fmt: skip


def _is_unused(story: Story, place: Span, cleared: int) -> bool:
    """Return whether a line itself calls backwards that came through, and none of whose gradients a step has used:
    they were cleared several times.
    """
    # One that fails on the way has given some: whoever goes on clears them.
    if cleared - sum(story.at(place, raised.at.span) for raised in story.raised) < _MIN_STEPS:
        return False
    used = any(story.at(place, other.span) for other, _ in story.gradients.used)
    return not used and _calls_backward(story, place)


def _of_leaves(
    story: Story, rule: type[Rule], places: Mapping[Span, list[str]], message: str, remedy: str, facts: type[Facts]
) -> list[Finding]:
    """Return the findings of a rule about the gradients of leaves, named for each place, that the run confirms."""
    made = (
        Finding(rule.code, rule.name, rule.severity, place, message, remedy, facts=facts(parameters=tuple(names)))
        for place, names in places.items()
    )
    return [finding for finding in made if _confirmed(story, finding)]


def _confirmed(story: Story, finding: Finding) -> bool:
    """Return whether the run confirms a finding that only it has, or shows its exception; it then gets what the run
    showed.
    """
    evidence = verdict_on(story, finding)
    if finding.code not in RAISING and (evidence is None or evidence.verdict != "confirmed"):
        return False
    shown = evidence or Evidence("found-by-run", "seen in the recorded run")
    finding.evidence = dataclasses.replace(shown, verdict="found-by-run")
    return True


def _calls_backward(story: Story, place: Span) -> bool:
    """Return whether a line itself calls a backward: what a library does with gradients is its own matter."""
    calls = (node for node in _nodes(story, place.file, ast.Call) if method_called(node) == "backward")
    return any(node.lineno <= place.end_line and place.line <= last_line(node) for node in calls)


def _nodes(story: Story, file: str, kind: type[Part]) -> list[Part]:
    """Return the nodes of a kind in a file of the program; none where it cannot be read."""
    try:
        return of_kind(read_source(story.file(file)).tree, kind)
    except SourceError:
        return []


def _starved(story: Story) -> Finding | None:
    """Return parameters that an optimizer stepped and that never had a gradient, where one place can have cut it
    off.
    """
    leaves = story.reading.ledger.leaves
    given = {leaf for leaf, _, _ in story.gradients.discarded}
    never = [
        number for number, steps in story.gradients.never.items()
        if number in leaves and number not in given and steps >= _MIN_STEPS
    ]  # fmt: skip
    if not story.whole or not never:
        return None
    names = [story.leaf_text(number) for number in never]
    known = [leaf.name for leaf in leaves.values()]
    shown = names_text(names)
    verb = "is" if len(names) == 1 else "are"
    severity: Severity = "warning"
    notes: tuple[str, ...] = ()
    how: Untraining | None = None
    optimizer, half = _of_all(story, never), _beside_trained(story, never)
    if (place := _from_leaf(story)) is not None:
        message = listed(f"{{}} {verb} never trained: the loss is a new leaf", names, known)
        advice = "remove `requires_grad`: it hides the error and trains nothing; mend what cut the graph before"
    elif not half and (cut := _cut_off(story, never, names)) is not None:
        place, message, advice, note = cut
        notes = (note,)
    elif optimizer is not None:
        place = optimizer.at.span
        severity = "warning" if set(optimizer.params) <= set(never) else "info"
        message = listed(
            ("{} never received a gradient from any backward", "{} never received a gradient"), names, known
        )
        advice = "compute the loss with them, or do not give them to the optimizer"
        unseen = "what keeps it away was not seen: an unused layer, a value without graph, a replaced parameter"
        added = "its layer has others that got gradients: a derivative does not depend on what is only added"
        notes = (added if half else unseen,)
        others = [story.leaf_text(one) for one in story.gradients.left_out if one in leaves and leaves[one].parameter]
        if len(others) == len(never):
            it, was = ("it", "this one was") if len(never) == 1 else ("them", "these were")
            notes = (f"{names_text(others)} got gradients, and no optimizer has {it}",)
            advice = f"make the optimizer once the model is complete: {was} probably replaced by then"
        if others and not any(leaves[number].name for number in never):
            # Nothing but the optimizer has them any more.
            how = "replaced"
    else:
        return None
    steps = max(story.gradients.never[number] for number in never)
    return Finding(
        GradientCut.code, _NAMES[GradientCut.code].name, severity, place, message,
        advice,
        tuple(
            Label(event.at.span, f"this optimizer steps {'it' if len(never) == 1 else 'them'}", "step")
            for event in story.reading.optimizers.values() if set(event.params) & set(never)
        ),
        certain=False, facts=GradientCutFacts(parameters=tuple(names), how=how),
        evidence=Evidence(
            "found-by-run", f"{shown} never had a gradient in {steps_text(steps)}", None,
            {"parameters": names, "steps": steps},
        ),
        notes=(*in_full(message, names), *notes),
    )  # fmt: skip


def _beside_trained(story: Story, never: Sequence[int]) -> bool:
    """Return whether a layer has a parameter that never had a gradient beside one that had some: a derivative does not
    depend on the last bias, and nothing that cuts a graph tells the parameters of one layer apart.
    """
    leaves = story.reading.ledger.leaves
    layers = {name.rpartition(".")[0] for name in map(story.leaf_text, never)} - {""}
    stepped = {leaf for optimizer in story.reading.optimizers.values() for leaf in optimizer.params}
    trained = (leaf for leaf in stepped & leaves.keys() if leaf not in story.gradients.never)
    return any(story.leaf_text(leaf).rpartition(".")[0] in layers for leaf in trained)


def _frozen(story: Story) -> list[Finding]:
    """Return the optimizers that have a group of parameters which was frozen as a whole at each of their steps."""
    made = {event.at.span for event in story.reading.optimizers.values()}
    groups: dict[Span, tuple[int, int]] = {}
    for at, count, steps in story.gradients.frozen_groups:
        if at.span in made and steps >= _MIN_STEPS:
            groups[at.span] = max((count, steps), groups.get(at.span, (0, 0)))
    if not story.whole:
        return []
    return [
        Finding(
            GradientCut.code, GradientCut.name, "info", place,
            "a group of this optimizer is never trained: `requires_grad` is switched off",
            "keep `requires_grad` on for what is to be trained, or do not give it to the optimizer",
            certain=False, facts=GradientCutFacts(how="frozen"),
            evidence=Evidence(
                "found-by-run",
                f"at {steps} steps or more, whole parameter groups of an optimizer were frozen: "
                f"{'1 parameter' if count == 1 else f'{count} parameters'}",
                None, {"count": count, "steps": steps},
            ),
        )
        for place, (count, steps) in groups.items()
    ]  # fmt: skip


def _cut_off(story: Story, never: Sequence[int], names: Sequence[str]) -> tuple[Span, str, str, str] | None:
    """Return where the graph to some parameters is cut, with the headline, the help and a note that say so."""
    known = [leaf.name for leaf in story.reading.ledger.leaves.values()]
    if (taken := _taken_from(story, never)) is not None:
        without = "gradient: `create_graph=True` may be missing"
        return (
            taken.at.span,
            listed((f"{{}} never received a {without}", f"{{}} got no {without}"), names, known),
            "pass `create_graph=True` here, unless the step goes by their sign; or leave the parameters out",
            "what later backward calls start from was stepped with these gradients, which are constants there",
        )
    if (place := _only_cut(story, names)) is None:
        return None
    received, whose = "{} never received a gradient; ", "its" if len(names) == 1 else "their"
    return (
        place,
        listed([f"{received}{whose} graph is probably cut here", f"{received}probably cut here"], names, known),
        "remove the cut, or do not give these parameters to the optimizer",
        "no other place of the program can cut it",
    )


def _taken_from(story: Story, never: Collection[int]) -> Run | None:
    """Return the one place that took a gradient without graph through all of some parameters, where a later backward
    starts from what an inner step made with it.
    """
    calls = grouped((run.at.span, run) for run in story.reading.runs if _is_without_graph(run) and run.backward.inputs)
    # What a call does it does from the beginning: long runs have thousands of them.
    first = [next((run for run in runs[:_LOOKED_AT] if _cuts_off(story, run, never)), None) for runs in calls.values()]
    found = list(filter(None, first))
    return found[0] if len(found) == 1 else None


def _cuts_off(story: Story, run: Run, never: Collection[int]) -> bool:
    """Return whether gradients without graph were taken through all of some parameters and are constants of an inner
    step, which one of the next backward calls comes to.
    """
    ledger, inputs = story.reading.ledger, run.backward.inputs or ()
    if not ledger.ancestry(run.backward.root_nodes).keys() >= set(never):
        return False
    later = [one for one in story.reading.runs if one.position > run.position and one.backward.accumulates]
    return any(_stepped(story, ledger.ancestry(one.backward.root_nodes), inputs) for one in later[:_LOOKED_AT])


def _only_cut(story: Story, names: Sequence[str]) -> Span | None:
    """Return the one place of the program's files that can keep gradients from parameters."""
    files = {event.at.file for event in story.tape.events if isinstance(event, (Node, Loop))}
    return only_cut([(file, story.file(file)) for file in sorted(files)], names)


def _of_all(story: Story, never: Sequence[int]) -> Optimizer | None:
    """Return the optimizer that has most of some parameters, where it was made in a file of the program."""
    made = [one for one in story.reading.optimizers.values() if not one.at.span.is_unknown]
    return max(made, key=lambda one: len(set(one.params) & set(never)), default=None)


def _from_leaf(story: Story) -> Span | None:
    """Return where the root of every backward was made a leaf of its own, so that none leads to a parameter."""
    leaves = story.reading.ledger.leaves
    places: set[Span | None] = set()
    for item in story.reading.runs:
        for root in item.backward.roots:
            leaf = leaves.get(root.node) if root.node is not None else None
            if leaf is None or leaf.parameter:
                return None
            file = item.at.file
            places.add(made_leaf(story.file(file), root.name, file))
    return places.pop() if len(places) == 1 else None


def _from_exception(story: Story, raised: Raised) -> Finding | None:
    codes = codes_of(raised)
    if not codes or UNUSED in raised.message:
        return _from_unused(story, raised) if codes else None
    code = codes[0]
    failed = story.problem_of(raised)
    taken = _gradient_without_graph(story, raised) if code == BackwardWithoutGraph.code else None
    if taken is not None:
        code = MissingCreateGraph.code
    rule = _NAMES[code]
    detail = raised_text(story, raised)
    labels = (*(_without_graph(taken) if taken is not None else ()), *_labels(story, raised, failed))
    return Finding(
        code, rule.name, "error", raised.at.span, HEADLINES[code], _HELP[code], labels,
        evidence=Evidence("found-by-run", detail, raised_in(story, raised)),
    )  # fmt: skip


def _from_unused(story: Story, raised: Raised) -> Finding | None:
    """Return an input that the graph does not lead to, where a gradient without graph was taken through it on the way.

    Which is so where the graph has the inputs of that gradient as an inner step leaves them, and only so: each
    with a constant added or taken away.
    """
    failed = story.problem_of(raised)
    if failed is None or failed.backward.inputs is None:
        return None
    taken = next(_taken_on_the_way(story, failed), None)
    if taken is None:
        return None
    run, first = taken
    leaf = story.reading.ledger.leaves.get(first)
    root = next((root.name for root in failed.backward.roots if root.name), "")
    return Finding(
        MissingCreateGraph.code, _NAMES[MissingCreateGraph.code].name, "error", raised.at.span,
        raising_headline(root, leaf.name if leaf is not None else "", True),
        _HELP[MissingCreateGraph.code], (*_without_graph(run), *_callers(raised.at)),
        evidence=Evidence("found-by-run", raised_text(story, raised), raised_in(story, raised)),
    )  # fmt: skip


def _taken_on_the_way(story: Story, failed: Run) -> Iterator[tuple[Run, int]]:
    """Yield the gradients without graph that were taken through an input which a failed call does not lead to, the last
    one first, each with that input.
    """
    ledger = story.reading.ledger
    graph = ledger.ancestry(failed.backward.root_nodes)
    missing = [number for number in failed.backward.inputs or () if number not in graph]
    earlier = reversed(story.reading.runs[: story.reading.runs.index(failed)])
    for run in (run for run in earlier if _is_without_graph(run) and run.backward.inputs):
        inputs = run.backward.inputs or ()
        through = ledger.ancestry(run.backward.root_nodes).keys() - set(inputs)
        first = next((number for number in missing if number in through), None)
        if first is not None and _stepped(story, graph, inputs):
            yield run, first


def _is_without_graph(run: Run) -> bool:
    """Return whether a call took gradients that have no graph."""
    return run.backward.call == "grad" and run.backward.create == "no"


def _stepped(story: Story, graph: Collection[int], inputs: Collection[int]) -> bool:
    """Return whether a graph has each of some tensors, and only with something added that has no graph."""
    used: dict[int, bool] = {}
    for number in story.reading.graph_nodes(graph):
        node = story.reading.ledger.nodes[number]
        for source in node.inputs:
            if source in inputs:
                used[source] = used.get(source, True) and node.op in _SHIFTS and len(node.inputs) == 1
    return len(used) == len(inputs) and all(used.values())


def _labels(story: Story, raised: Raised, failed: Run | None) -> Iterable[Label]:
    problem = failed.problem if failed is not None else None
    node = story.failing_node(raised, failed)
    if node is not None:
        yield Label(node.at.span, f"`{node.op}` was built here", "built")
    if problem is not None and problem.freed_by is not None:
        yield Label(problem.freed_by.at.span, "its saved tensors were freed here", "freed")
    if problem is not None and problem.changed_by is not None:
        yield Label(problem.changed_by.at.span, "a tensor it had saved was changed in place here", "changed")
    yield from _callers(raised.at)


def _callers(at: Site) -> Iterator[Label]:
    return (Label(caller, "called from here", "called") for caller in at.stack)


def _gradient_without_graph(story: Story, raised: Raised) -> Run | None:
    """Return the autograd.grad call that a root without graph came from: an earlier one of the same place and name."""
    failed = story.problem_of(raised)
    if failed is None or failed.backward.call != "grad":
        return None
    if not any(root.node is None and root.name for root in failed.backward.roots):
        return None
    there = (item for item in reversed(story.reading.runs) if item.at.span == failed.at.span)
    return next((item for item in there if _is_without_graph(item) and item.position < failed.position), None)


def _without_graph(taken: Run) -> Iterable[Label]:
    yield Label(taken.at.span, "not differentiable: taken here without `create_graph=True`", "cut")
    yield from _callers(taken.at)
