"""TAPE105, gradient-of-non-leaf."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.gradient_of_non_leaf.facts import GradientOfNonLeafFacts, How
from tapecheck.rules.gradients import name_of
from tapecheck.rules.raising import at_each_place
from tapecheck.rules.reading import Reading
from tapecheck.rules.rule import Rule
from tapecheck.rules.words import called_from, headline, possible, quoted
from tapecheck.tape import GradientCleared, Node, Raised, Span

_ASK = "call `{}.requires_grad_()` before anything is computed with it"
_OF_NONE = ("AttributeError", "TypeError", "ValueError")
HEADLINE = "the optimizer is given a tensor that is not a leaf"
"""What is said where the tensor has no name."""


class GradientOfNonLeaf(Rule):
    """The `.grad` of an operation's result is None, and an optimizer refuses such a tensor; that of a leaf is None
    until a backward fills it.
    """

    code = "TAPE105"
    name = "gradient-of-non-leaf"
    severity = "error"
    raises = True
    summary = "The result of an operation is not a leaf: its `.grad` is None, and no optimizer takes it"

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        found = [
            (reading, raised.at.span, raised)
            for reading in readings
            for raised in reading.raised
            if raised.backward is None and not raised.caught and raised.exception in _OF_NONE
            if raised.ungraded or raised.node in reading.ledger.nodes or raised.node in reading.ledger.leaves
        ]
        return [
            self._told(reading, each, certain and not _is_chosen(reading, each, readings))
            for reading, each, certain in at_each_place(readings, found, _comes_to)
            # Which way a run takes to its first gradient, nobody knows.
            if certain or each.node not in reading.ledger.leaves
        ]

    def _told(self, reading: Reading, raised: Raised, certain: bool) -> Finding:
        if raised.ungraded:
            return self._ungraded(reading, raised, certain)
        told = self._finding if raised.node in reading.ledger.nodes else self._empty
        return told(reading, raised, certain)

    def _empty(self, reading: Reading, raised: Raised, certain: bool) -> Finding:
        """Return what is said of a leaf whose gradient is read before a backward fills it."""
        assert raised.node is not None
        name, home = name_of(reading, raised.node), raised.at.span
        cleared = None
        for _, event in reading.gradient_events:
            if isinstance(event, GradientCleared) and event.leaf == raised.node:
                cleared = event.at.span
        labels = [Label(cleared, "set to None here", "changed")] if cleared is not None else []
        labels += called_from(reading, raised.at, raised.at)
        said = headline(["`{0}.grad` is None: no backward has filled it", "`{0}.grad` is None: not filled yet"], name)
        return Finding(
            self.code, self.name, self.severity, home,
            said if name else "a gradient is None: no backward has filled it",
            "read the gradient between the backward and where it is set to None" if cleared
            else "read the gradient after a backward; what clears it asks first, `if w.grad is not None`",
            tuple(label for label in labels if label.span != home), certain,
            facts=GradientOfNonLeafFacts(tensor=name, built=home, how="early", cleared=cleared),
            notes=("the `.grad` of a leaf is None until a backward fills it, and after `zero_grad()`",),
        )  # fmt: skip

    def _ungraded(self, reading: Reading, raised: Raised, certain: bool) -> Finding:
        """Return what is said of a tensor that requires no grad: the name may have meant a leaf until then."""
        name, home = raised.ungraded, raised.at.span
        cut = reading.ledger.cuts.get(raised.cut) if raised.cut is not None else None
        leaves = () if cut is None or cut.how != "no_grad" else (*cut.nodes, *cut.leaves)
        how: How = "update" if _is_named(reading, leaves, name) else "read"
        said = headline(["`{0}.grad` is None: `{0}` requires no grad", "`{0}.grad` is None: no grad required"], name)
        why = {
            "no_grad": "computed here without recording: the result requires no grad",
            "detach": "detached here", "data": "taken out of its graph here by `.data`",
        }  # fmt: skip
        labels = [Label(cut.at.span, why[cut.how], "cut")] if cut is not None and cut.how in why else []
        labels += called_from(reading, raised.at, raised.at)
        return Finding(
            self.code, self.name, self.severity, home, said if certain else possible(said),
            _help(f"`{name}`", how) if how == "update" else _ASK.format(name),
            tuple(label for label in labels if label.span != home), certain,
            facts=GradientOfNonLeafFacts(
                tensor=name, built=cut.at.span if cut is not None else home, how=how, ungraded=True
            ),
            notes=("a backward fills the `.grad` of tensors that require grad, when something was computed with them",),
        )  # fmt: skip

    def _finding(self, reading: Reading, raised: Raised, certain: bool) -> Finding:
        assert raised.node is not None
        node = reading.ledger.nodes[raised.node]
        name, home = _name(reading, node), raised.at.span
        tensor, how = quoted(name, "the tensor"), _how(reading, raised, node, name)
        labels = []
        if node.at.span != home:
            earlier = ", in an earlier iteration" if how == "update" else ""
            labels.append(Label(node.at.span, f"`{node.op}` computes {tensor} here{earlier}", "built"))
        labels += called_from(reading, raised.at, raised.at)
        said = _headline(name, how)
        return Finding(
            self.code, self.name, self.severity, home, said if certain else possible(said), _help(tensor, how),
            tuple(labels), certain,
            facts=GradientOfNonLeafFacts(tensor=name, built=node.at.span, how=how),
            notes=("a backward fills the `.grad` of leaf tensors only, not of the results of operations",),
        )  # fmt: skip


def _comes_to(reading: Reading, place: Span) -> bool:
    """Return whether a way comes to a place at which another one raises: where a leaf is used, it goes on there."""
    return (place.file, place.line) in reading.lines


def _is_chosen(reading: Reading, raised: Raised, readings: Sequence[Reading]) -> bool:
    """Return whether what makes the tensor no leaf was chosen, and another way chose otherwise: `.to(device)` gives a
    leaf itself where it is there already.
    """
    made = reading.ledger.nodes.get(raised.node) if raised.node is not None else None
    if made is None:
        return False
    chosen = {(one.text, one.taken) for _, one in reading.decisions if one.at.span == made.at.span}
    otherwise = (one for other in readings for _, one in other.decisions if one.at.span == made.at.span)
    return any((one.text, not one.taken) in chosen for one in otherwise)


def _name(reading: Reading, node: Node) -> str:
    """Return the name that a tensor was bound to last; empty where it has none."""
    bound = reading.binds.get(node.id, ())
    return bound[-1][1].name if bound else ""


def _how(reading: Reading, raised: Raised, node: Node, name: str) -> How:
    if raised.exception == "ValueError":
        return "given"
    leaves = reading.ledger.leaves.keys() & reading.below([node.id])
    return "update" if name and node.at.iteration and _is_named(reading, leaves, name) else "read"


def _is_named(reading: Reading, leaves: Iterable[int], name: str) -> bool:
    """Return whether one of some leaves was bound to a name."""
    return any(bind.name == name for leaf in leaves for _, bind in reading.binds.get(leaf, ()))


def _headline(name: str, how: How) -> str:
    if how == "given":
        return headline("the optimizer is given `{}`, which is not a leaf", name) if name else HEADLINE
    if not name:
        return "the gradient of a tensor that is not a leaf is None"
    return headline(["`{0}.grad` is None: `{0}` is not a leaf", "`{0}.grad` is None: not a leaf"], name)


def _help(tensor: str, how: How) -> str:
    if how == "update":
        return f"change {tensor} in place under `torch.no_grad()`: it then stays the leaf that the backward fills"
    if how == "given":
        return f"make {tensor} a leaf: call `requires_grad_()` on its value last, or make that an `nn.Parameter`"
    return f"call `retain_grad()` on {tensor} before the backward, or make it a leaf: `.detach().requires_grad_()`"
