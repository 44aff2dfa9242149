"""TAPE407, term-without-effect."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tapecheck.rules.facts import Lacking
from tapecheck.rules.finding import Finding, Label, Severity
from tapecheck.rules.gradients import (
    Gradients,
    Identity,
    gradients_of,
    identity,
    lists_parameters,
    looked_at,
)
from tapecheck.rules.path import undisputed
from tapecheck.rules.reading import (
    MERGES,
    Reading,
    Run,
    behind,
    covered,
    iteration_in,
    plain,
    remembered,
    search,
    with_sources,
)
from tapecheck.rules.rule import Rule
from tapecheck.rules.term_without_effect.facts import TermWithoutEffectFacts
from tapecheck.rules.untrained_parameter.rule import forgotten
from tapecheck.rules.words import called_from, cut_advice, cut_words, headline, parameters_text
from tapecheck.tape import Assumed, Cut, Fact, GradientRead, Leaf, Node, Site, Span, either

_FACTORS = frozenset(("mul", "div", "neg"))
_SAID = frozenset(("detach", "data"))
_NUMBERS = frozenset(("item", "numpy"))
_DEPTH = 60


class TermWithoutEffect(Rule):
    """A term of a loss reaches no parameter that the step after its backward trains."""

    code = "TAPE407"
    name = "term-without-effect"
    severity = "warning"
    severities = ("warning", "info")
    of_absence = True
    needs = frozenset(("base", "name", "rounds"))
    summary = "A term of a loss reaches no parameter that its step trains"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        if not any(reading.steps and reading.runs for reading in readings):
            return []
        left = undisputed(itertools.chain.from_iterable(map(_shown, readings))).values()
        told = forgotten(readings) if left else set()
        found = [self._finding(*shown) for shown in left if not _told_as_left_out(*shown, told)]
        late = undisputed(itertools.chain.from_iterable(map(_merged, readings)))
        return found + [self._too_late(one) for one in late.values()]

    def spares(self, finding: Finding, reading: Reading, event: Assumed, position: int) -> bool:
        if event.kind != "name":
            return False
        constant = isinstance(finding.facts, TermWithoutEffectFacts) and finding.facts.constant
        # Whatever a method computes or does, what was cut off behind it has no graph.
        return constant or lists_parameters(reading, event)

    def _too_late(self, late: _Late) -> Finding:
        """Return the finding about a term that is added to a loss whose backward has run."""
        home, run = late.merge.at, late.run
        what, whole, names = _named_in(late.name, run)
        labels = [Label(run.at.span, "this backward has run without the term", "path")]
        return Finding(
            self.code, self.name, "info", home.span,
            headline([f"{what} is added to {whole} after its backward"], *names),
            "add the term before the backward; where it is only for the log, compute it under `torch.no_grad()`",
            (*labels, *called_from(late.reading, home, home)),
            facts=TermWithoutEffectFacts(constant=False),
            notes=("the term trains nothing: no backward walks its graph",),
        )  # fmt: skip

    def _finding(self, reading: Reading, term: Term) -> Finding:
        home, run = term.merge.at, term.run
        cut = term.cuts[0] if term.cuts else None
        left_out = _left_out(reading, term.node)
        said = cut is not None and not (term.node is None and cut.how in _SAID)
        severity: Severity = "warning" if said or left_out else "info"
        # A value that was given a new value of the same name has no name of its own any more.
        name = term.name if term.name != run.backward.roots[0].name else ""
        what, whole, names = _named_in(name, run)
        forms = [f"{what} in {whole} has no effect on what its step trains", f"{what} in {whole} trains nothing"]
        labels = [Label(run.at.span, "this backward adds nothing for the term to what is stepped", "path")]
        if not name and term.node is not None and term.place[0].line not in (home.span.line, run.at.span.line):
            labels.append(Label(term.place[0], "this is the term", "built"))
        labels += [Label(each.at.span, cut_words(each, home.span), "cut") for each in term.cuts]
        labels += called_from(reading, home, home)
        advice = (cut_advice(cut) if cut is not None else "") or _ADVICE
        if left_out:
            other = "take the term out of the loss if they are not to be trained"
            if cut is not None:
                other = f"if the term is to train what comes before the cut: {advice}"
            advice = f"give them to the optimizer, or {other}"
        return Finding(
            self.code, self.name, severity, home.span, headline(forms, *names), advice, tuple(labels),
            facts=TermWithoutEffectFacts(
                constant=term.node is None, number=any(each.how in _NUMBERS for each in term.cuts),
                parameters=tuple(leaf.name for leaf in left_out), lacking=_lacking(reading, run, left_out),
            ),
            notes=_trains_nothing(reading, term.node) if term.node is not None else (),
        )  # fmt: skip


_ADVICE = "compute the term of what is to be trained, or take it out of the loss"


def _named_in(name: str, run: Run) -> tuple[str, str, list[str]]:
    """Return how a headline names a term, and the loss that it is a part of, with the names to fill that with."""
    root = run.backward.roots[0].name
    return "`{}`" if name else "a term", "`{}`" if root else "the loss", [one for one in (name, root) if one]


def _shown(reading: Reading) -> Iterator[tuple[_Key, tuple[Reading, Term] | None]]:
    """Yield the terms of a tape that have no effect, and with None those that have one, by their places."""
    for term in (term for run in reading.runs for term in terms_of(reading, run)):
        key = term.run.at.span, term.merge.at.span, term.place
        if term.reaches == "yes":
            yield key, None
        elif term.reaches != "no" or not reading.complete or _told_as_cut(reading, term):
            continue
        elif not _is_read_elsewhere(reading, term):
            yield key, (reading, term)


def _is_read_elsewhere(reading: Reading, term: Term) -> bool:
    """Return whether the program reads the gradient of a leaf that a term leads to, in another iteration: it goes on
    from there by itself.
    """
    leaves = reading.ledger.leaves
    reached = reading.below([term.node]) & leaves.keys() if term.node is not None else ()
    places = {leaves[leaf].at.span for leaf in reached if not leaves[leaf].parameter}
    read = {event.of for _, event in reading.gradient_events if isinstance(event, GradientRead)} if places else ()
    return any(leaf in leaves and leaves[leaf].at.span in places for leaf in read)


def _trains_nothing(reading: Reading, node: int) -> tuple[str, ...]:
    """Return why the gradients that a term gives to parameters train none of them."""
    notes = []
    left_out = _left_out(reading, node)
    if len(left_out) < len(_parameters(reading, node)):
        notes.append("the gradients it gives to other parameters are cleared before their own step")
    if left_out:
        row = parameters_text(leaf.name for leaf in left_out)
        notes.append(f"it gives gradients to parameters that are in no optimizer{f': {row}' if row else ''}")
    return tuple(notes)


def _left_out(reading: Reading, node: int | None) -> list[Leaf]:
    """Return the parameters that a term gives gradients to and no optimizer has."""
    owned = gradients_of(reading).steppable
    return [leaf for leaf in _parameters(reading, node) if leaf.id not in owned]


def _lacking(reading: Reading, run: Run, left_out: Sequence[Leaf]) -> Lacking | None:
    """Return that the one optimizer which steps after a backward lacks some parameters; None where there are more."""
    owners = gradients_of(reading).steppable
    stepping = set().union(*(owners[leaf] for leaf in run.executed if leaf in owners))
    optimizer = reading.optimizers.get(next(iter(stepping))) if len(stepping) == 1 else None
    if optimizer is None or not left_out:
        return None
    siblings = (leaf.name for leaf in map(reading.ledger.leaves.get, optimizer.params[:64]) if leaf is not None)
    return Lacking(
        kind="registered", optimizer=optimizer.at.span, made=tuple(leaf.at.span for leaf in left_out),
        calls=left_out[0].at.stack, siblings=tuple(siblings),
    )  # fmt: skip


def _parameters(reading: Reading, node: int | None) -> list[Leaf]:
    """Return the parameters that a term gives gradients to, in the order in which they were made."""
    leaves = reading.ledger.leaves
    reached = reading.below([node]) & leaves.keys() if node is not None else ()
    return [leaves[leaf] for leaf in sorted(reached) if leaves[leaf].parameter]


_Place = tuple[Span, ...]
"""Where a term was computed or cut, and the calls that led there from what adds it."""
_Key = tuple[Span, Span, _Place]
"""The backward, the operation that adds the term, and the place of the term."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the loss that a backward starts from.

    `merge` is the operation that adds it to another one. `node` is its own, None where it is a constant; `cuts` are
    what keeps it from parameters that are trained. `reaches` says whether some step, or something else, uses a
    gradient that it gives, or may do so; it is "may" only where the program ends before that shows.
    """

    run: Run
    merge: Node
    node: int | None
    name: str
    place: _Place
    cuts: tuple[Cut, ...]
    reaches: Fact


@dataclass(frozen=True, slots=True)
class _Late:
    """A term that `merge` adds to the root of a backward that has run."""

    reading: Reading
    run: Run
    merge: Node
    name: str


@remembered
def _merged(reading: Reading) -> list[tuple[Span, _Late | None]]:
    """Return for the places where terms are added to the root of a backward whether that comes too late for a term."""
    walked = _from_one_root(reading)
    if not reading.steps or not reading.complete or not walked:
        return []
    nodes = reading.ledger.nodes
    built = [nodes[number] for number in reading.nodes_between(reading.runs[0].position, len(reading.tape.events))]
    late = [one for node in built if (one := _too_late_for(reading, node, walked)) is not None]
    places = {one.merge.at.span for one in late}
    return [(one.merge.at.span, one) for one in late] + [
        (node.at.span, None)
        for node in built
        # Added in another order it is walked: in another iteration, on another side of a condition.
        if node.at.span in places and (node.id in reading.used or walked.keys().isdisjoint(node.inputs))
    ]


def _from_one_root(reading: Reading) -> dict[int | None, Run]:
    """Return the backwards that start from one value, by that."""
    single = (run for run in reading.runs if len(run.backward.roots) == 1 and not run.failed)
    return {run.backward.roots[0].node: run for run in single}


def _too_late_for(reading: Reading, node: Node, walked: Mapping[int | None, Run]) -> _Late | None:
    """Return what a node adds to the root of one of the backwards by root, where that comes too late for it."""
    root = next((one for one in node.inputs if one in walked), None)
    if root is None or plain(node.op) not in MERGES or len(set(node.inputs)) < 2:
        return None
    run = walked[root]
    if reading.built(node.id) < run.position:
        # The sum was there when the backward ran: it is another loss, which this way has no use for.
        return None
    terms = [one for one in node.inputs if one != root]
    if not run.backward.accumulates or not _is_lost(reading, node, terms):
        return None
    return _Late(reading, run, node, _called(reading, terms[0], _FACTORS)[0])


def _is_lost(reading: Reading, merge: Node, terms: Sequence[int]) -> bool:
    """Return whether nothing walks a sum or its terms, which lead to what an optimizer has, and nothing keeps it."""
    if merge.id in reading.used or any(_has_walked(reading, term) for term in terms) or _is_kept(reading, merge):
        return False
    steppable = gradients_of(reading).steppable.keys()
    return all(not steppable.isdisjoint(reading.below([term])) for term in terms)


def _is_kept(reading: Reading, merge: Node) -> bool:
    """Return whether a sum may be read behind the iteration that it belongs to, if to any."""
    loop = reading.loops.get(merge.at.iteration[-1][0]) if merge.at.iteration else None
    # What the last iteration leaves may be read behind the loop.
    if loop is None or (index := iteration_in(merge.at, loop)) >= loop.iterations:
        return True
    if any("." in bind.name and not bind.part for _, bind in reading.binds.get(merge.id, ())):
        return True
    held = ((one.loop.id != loop.id or at > index, kept) for one in reading.held for at, kept in one.nodes.items())
    return any(later and merge.id in kept for later, kept in held)


def _has_walked(reading: Reading, term: int) -> bool:
    """Return whether something walks a term, or a term of the sum that it is itself."""
    nodes = reading.ledger.nodes

    def terms(number: int) -> Sequence[int]:
        return nodes[number].inputs if number in nodes and plain(nodes[number].op) in MERGES | _FACTORS else ()

    return any(number in reading.used for number in search([term], terms))


def _called(reading: Reading, number: int, around: Set[str], before: int | None = None) -> tuple[str, Site | None]:
    """Return the name of a term and where it was computed, without the operations around it that are none."""
    while (known := reading.name(number, before)) is None:
        node = reading.ledger.nodes.get(number)
        if node is None or plain(node.op) not in around or len(set(node.inputs)) != 1:
            return "", reading.site(number)
        number = node.inputs[0]
    return known


@remembered
def terms_of(reading: Reading, run: Run) -> Sequence[Term]:
    """Return the terms of the sum that a backward starts from, where the step after it is seen and all that it may
    reach is known.
    """
    backward = run.backward
    if len(backward.roots) != 1 or not backward.accumulates or backward.inputs is not None:
        return ()
    root = backward.roots[0]
    if root.node is None or root.graph != "yes" or run.problem is not None:
        return ()
    gradients = gradients_of(reading)
    ledger = reading.ledger
    trained = {leaf for leaf in run.executed if leaf in ledger.leaves and _is_stepped(gradients, leaf, run)}
    terms = _Sum(reading, run, gradients, trained).terms(root.node) if trained else ()
    # Gradients that have a graph are differentiated again, maybe: that leads nowhere from a constant.
    return terms if backward.create == "no" else [term for term in terms if term.node is None]


def _of_another_iteration(cut: Cut, merge: Node) -> bool:
    """Return whether a value was cut in another iteration of a loop than that in which it is added."""
    pairs = zip(cut.at.iteration, merge.at.iteration, strict=False)
    return any(one[0] == other[0] and one != other for one, other in pairs)


def _told_as_cut(reading: Reading, term: Term) -> bool:
    """Return whether what keeps a term from the parameters keeps all of a loss from some of them: TAPE402 says that."""
    behind = set().union(*(covered(reading, cut) for cut in term.cuts)) & gradients_of(reading).steppable.keys()
    return any(all(leaf not in run.executed for run in reading.runs) for leaf in behind)


def _told_as_left_out(reading: Reading, term: Term, told: set[Identity]) -> bool:
    """Return whether a term trains nothing because the optimizer lacks what it reaches: TAPE405 says that."""
    if term.node is None or term.cuts or not told:
        return False
    leaves = reading.ledger.leaves
    return any(identity(reading, leaves[leaf]) in told for leaf in reading.below([term.node]) & leaves.keys())


def _is_stepped(gradients: Gradients, leaf: int, run: Run) -> bool:
    """Return whether a step uses what a backward gives a leaf; that something reads it before makes no difference."""
    acts = (one.kind for one in gradients.after(leaf, run.position) if one.kind not in ("added", "read"))
    return next((kind == "stepped" for kind in acts), False)


def _next(gradients: Gradients, leaf: int, run: Run) -> str:
    """Return what first uses or clears the gradient of a leaf after a backward: stepped, cleared, read, or nothing."""
    for moment in gradients.after(leaf, run.position):
        if moment.kind != "added":
            return "read" if moment.kind == "set" else moment.kind
    return ""


def _place(site: Site, merge: Site) -> _Place:
    """Return where something is, told apart by the calls that lead there from what adds it: `term(a) + term(b)`."""
    return site.span, *site.stack[: max(len(site.stack) - len(merge.stack), 0)]


class _Sum:
    """The sum that one backward starts from; `trained` are the leaves that the step after it uses."""

    def __init__(self, reading: Reading, run: Run, gradients: Gradients, trained: set[int]) -> None:
        self.reading = reading
        self.run = run
        self.gradients = gradients
        self.trained = trained
        self._wanted = trained | gradients.steppable.keys()
        """What this step, or another one, trains."""
        self._differentiated = {
            number
            for one in reading.runs
            if one.backward.call == "grad" and one.backward.create != "no" and one.position < run.position
            for number in one.executed
        }
        """What is differentiated into a graph: it has an effect by its gradients, too, as in a penalty."""
        self._found: list[Term] = []

    def terms(self, root: int) -> Sequence[Term]:
        """Return the terms, of nested sums the outermost that tell something."""
        self._visit(root, 0)
        return self._found

    def _visit(self, number: int, depth: int) -> Fact:
        """Return whether some term below a node has an effect; note the terms on the way."""
        node = self.reading.ledger.nodes.get(number)
        if node is None or depth > _DEPTH or node.linked != "yes":
            return self._used(number)
        op = plain(node.op)
        if op in _FACTORS and len(set(node.inputs)) == 1:
            return self._visit(node.inputs[0], depth + 1)
        if op not in MERGES:
            return self._used(number)
        operands = list(dict.fromkeys(node.inputs))
        facts = [self._visit(operand, depth + 1) for operand in operands]
        if len(operands) > 1:
            for operand, reaches in zip(operands, facts, strict=True):
                self._found.append(self._term(node, operand, reaches))
        elif node.cuts and facts[0] != "no":
            self._constant(node)
        return "yes" if "yes" in facts else "may" if "may" in facts else "no"

    def _term(self, merge: Node, operand: int, reaches: Fact) -> Term:
        cuts = () if reaches != "no" else self._cutting(self.reading.below([operand]))
        # What the optimizer of this step has not is why, unless something of what it has was cut off.
        if cuts and _left_out(self.reading, operand):
            cuts = cuts if any(covered(self.reading, cut) & self.trained for cut in cuts) else ()
        name, site = _called(self.reading, operand, _FACTORS | MERGES, self.run.position)
        return Term(self.run, merge, operand, name, _place(site or self.run.at, merge.at), cuts, reaches)

    def _constant(self, merge: Node) -> None:
        """Note a term without graph that could have had one."""
        found = [self.reading.ledger.cuts[number] for number in merge.cuts if number in self.reading.ledger.cuts]
        if any(cut.how == "grad" for cut in found):
            return
        # What else went into it, a frozen teacher's values, has nothing to train.
        found = [cut for cut in found if cut.how not in ("frozen", "leaf")]
        cuts = tuple(cut for cut in found if covered(self.reading, cut) & self._wanted)
        if cuts and not self._is_meant(merge, found):
            name = self.reading.constant(merge.cuts, self.run.position)
            self._found.append(Term(self.run, merge, None, name, _place(cuts[0].at, merge.at), cuts[:1], "no"))

    def _is_meant(self, merge: Node, cuts: Sequence[Cut]) -> bool:
        """Return whether what some cuts give is added as a constant on purpose."""
        # Detached where it is added, it is meant as one.
        here = (cut for cut in cuts if (cut.at.file, cut.at.line) == (merge.at.file, merge.at.line))
        if any(cut.how in _SAID for cut in here):
            return True
        # What an earlier iteration left behind is detached because its graph is gone.
        if any(_of_another_iteration(cut, merge) for cut in cuts):
            return True
        # Detached as the target of another term, it is a constant of that as well: the entropy in a divergence.
        return all(cut.how in _SAID for cut in cuts) and self._enters_beside(merge, cuts)

    def _enters_beside(self, merge: Node, found: Sequence[Cut]) -> bool:
        """Return whether what was cut went as a constant into what else is added here."""
        beside = self.reading.cuts_into(self.reading.below(merge.inputs))
        sources = with_sources(self.reading, sorted(beside))
        return all(cut.id in sources for cut in found)

    def _cutting(self, reached: Set[int]) -> tuple[Cut, ...]:
        """Return the cuts within a term that keep it from what the step, or another one, trains."""
        leaves = self.reading.ledger.leaves
        numbers = {cut for leaf in reached & leaves.keys() for cut in leaves[leaf].cuts}
        cuts = with_sources(self.reading, sorted(numbers | self.reading.cuts_into(reached))).values()
        found = [cut for cut in cuts if cut.how != "grad" and covered(self.reading, cut) & self._wanted]
        return tuple({cut.at.span: cut for cut in found}.values())

    def _used(self, number: int) -> Fact:
        """Return whether something uses a gradient that goes to what is below a node; yes where that is not known."""
        if number in self._differentiated:
            return "yes"
        ledger = self.reading.ledger
        found: Fact = "no"
        for reached, fact in ledger.ancestry([number]).items():
            leaf = ledger.leaves.get(reached)
            if leaf is None:
                if fact != "yes" or ledger.leads_anywhere(reached) or reached in ledger.provisional:
                    return "yes"
                continue
            if fact == "yes" and self._made_again(leaf):
                continue
            found = either(found, "yes" if fact != "yes" or not leaf.parameter else self._matters(reached))
            if found == "yes":
                return found
        return found

    def _made_again(self, leaf: Leaf) -> bool:
        """Return whether a leaf is a cut value that each iteration makes a leaf again and whose gradient is of no use:
        `torch.tensor(loss.item(), requires_grad=True)`.
        """
        if leaf.parameter or not leaf.at.iteration or not leaf.cuts or self.gradients.unseen(leaf.id):
            return False
        if leaf.id in self.gradients.steppable or self.gradients.happens(leaf.id, "read", "set"):
            return False
        return not self._wanted.isdisjoint(behind(self.reading, leaf.cuts))

    def _matters(self, leaf: int) -> Fact:
        """Return whether what this backward adds to a parameter's gradient is used."""
        if leaf in self.trained or self.gradients.unseen(leaf):
            return "yes"
        if self.gradients.listed and leaf not in self.gradients.steppable:
            after = [each for each in self.gradients.moments(leaf) if each.position > self.run.position]
            kept = itertools.takewhile(lambda moment: moment.kind != "cleared", after)
            return "yes" if looked_at(list(kept)) else "no"
        following = _next(self.gradients, leaf, self.run)
        if following == "cleared":
            # That its own optimizer steps it elsewhere says that it is not only left for later.
            owners = self.gradients.steppable.get(leaf, set())
            return "no" if any(step.optimizer in owners for _, step in self.reading.steps) else "yes"
        if following or not self.gradients.listed:
            return "yes"
        return "may" if leaf in self.gradients.steppable else "no"
