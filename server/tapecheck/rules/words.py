"""The wording of findings: headlines, places, times and calls, the same in every rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.reading import Reading, Run
from tapecheck.tape import Backward, CutKind, Node, Root, Site, Span
from tapecheck.tape.ledger import GRADIENT

MAX_LABELS = 8
MAX_HEADLINE = 72
MAX_LISTED = 3
_NAME = re.compile(r"`([^`]*)`")
_ASIDE = re.compile(r" \([^()]*\)$")
_PARAMETER = re.compile(r"\.(?:\w*weight\w*|\w*bias\w*)$")
SWALLOWED = "the exception is swallowed: this step is silently skipped"

Untraining = CutKind | Literal["anew", "replaced", "unreached", "cleared"]
"""What keeps a gradient from a parameter: a cut, or that the optimizer has another tensor ("replaced"), that no loss
leads back to it ("unreached"), that the gradients are gone before their step ("cleared"), that the loss is computed of
a leaf which each iteration makes of its value ("anew").
"""

CUT_WORDS: dict[Untraining, str] = {
    "detach": "`.detach()` takes {value} out of its graph",
    "data": "`.data` reads or writes {value} past autograd",
    "no_grad": "what is computed of {value} under `torch.no_grad()` has no graph",
    "item": "{value} is read as a Python number here, without its graph",
    "numpy": "{value} goes through NumPy, which autograd does not see",
    "grad": "{value} is a gradient taken without `create_graph=True`: a constant",
    "copy": "a new tensor is made of {value}: it has the value and not the graph",
    "frozen": "`requires_grad` of {value} is switched off here",
    "nondifferentiable": "this operation on {value} is not differentiable",
    "zero": "what comes back to {value} through this operation is zeros, whatever the loss",
    "leaf": "{value} is made a new leaf here: nothing leads back from it",
    "anew": "each iteration makes a new leaf of {value} here: nothing leads back from it",
    "replaced": "{value} is replaced here: the optimizer keeps the one that was there before",
    "unreached": "no loss leads back to what this optimizer was given",
    "checkpoint": "reentrant checkpointing drops the graph of {value}: none of its inputs requires grad",
    "cleared": "the gradients are set to None here, after their backward and before their step",
}

CUT_ADVICE: dict[Untraining, str] = {
    "detach": "remove `.detach()`",
    "data": "remove `.data`",
    "no_grad": "compute it outside `torch.no_grad()`",
    "item": "use the tensor itself, not its value as a Python number",
    "numpy": "use torch functions instead of NumPy",
    "copy": "use the tensor itself, or `torch.stack` for several, instead of copying its value",
    "nondifferentiable": "use a differentiable form (the logits or a softmax instead of `argmax`, "
    "a smooth loss instead of a comparison)",
    "zero": "use a form that has a gradient: `mean + std * torch.randn_like(mean)` instead of "
    "`torch.normal(mean, std)`, `x + (x.round() - x).detach()` instead of `x.round()`",
    "frozen": "keep `requires_grad` on for what is to be trained",
    "leaf": "remove `requires_grad`: it hides the error and trains nothing",
    "anew": "use the tensor itself, not a new parameter or leaf of its value",
    "replaced": "make the optimizer after this",
    "unreached": "give the optimizer the parameters that the loss is computed with",
    "checkpoint": "call `checkpoint(..., use_reentrant=False)`",
    "cleared": "clear first, then run the backward, then step",
}


CUT_CAUSES: dict[Untraining, str] = {
    "detach": "`.detach()` cuts {} graph",
    "data": "`.data` cuts {} graph",
    "no_grad": "`torch.no_grad()` cuts {} graph",
    "item": "a Python number cuts {} graph",
    "numpy": "NumPy cuts {} graph",
    "copy": "a copied value cuts {} graph",
    "frozen": "`requires_grad` is switched off",
    "nondifferentiable": "non-differentiable operation",
    "zero": "{} gradient is always zero",
    "leaf": "the loss is a new leaf",
    "anew": "a new leaf cuts {} graph",
    "replaced": "replaced after the optimizer was made",
    "unreached": "reached by no loss",
    "checkpoint": "reentrant checkpointing",
    "cleared": "cleared before each step",
}


SHORT_CAUSES: dict[Untraining, str] = {
    "detach": "cut by `.detach()`",
    "data": "cut by `.data`",
    "no_grad": "cut by `no_grad`",
    "item": "cut by a number",
    "numpy": "cut by NumPy",
    "copy": "cut by a copy",
    "frozen": "frozen",
    "anew": "cut by a new leaf",
    "replaced": "replaced",
    "zero": "zero gradient",
    "checkpoint": "cut by `checkpoint`",
    "cleared": "cleared too soon",
}


def headline(form: str | Sequence[str], *names: str) -> str:
    """Return the first of some forms, `{}` filled with `names`, that fits into `MAX_HEADLINE` characters.

    Where none fits, the names of the last form are shortened, longest first: leading attributes go first
    (`self.encoder.state` becomes `state`), then what stands in brackets, then the end.
    """
    forms = [form] if isinstance(form, str) else list(form)
    shown = [_plain(name) for name in names]
    for each in forms:
        full = each.format(*shown)
        if len(full) <= MAX_HEADLINE:
            return full
    ways = [_shorter(name) for name in shown]
    while len(text := forms[-1].format(*shown)) > MAX_HEADLINE:
        longest = max(range(len(shown)), key=lambda index: len(shown[index]), default=None)
        shorter = next(ways[longest], None) if longest is not None else None
        if longest is None or shorter is None:
            return text[: MAX_HEADLINE - 1] + "…"
        shown[longest] = shorter
    return text


def _plain(name: str) -> str:
    """Return a name on one line, fit to stand between backticks."""
    return " ".join(name.replace("`", "'").split())


def _shorter(name: str) -> Iterator[str]:
    """Yield ever shorter forms of a name."""
    dots = [found.start() for found in re.finditer(r"\.", name) if not _within_brackets(name, found.start())]
    last = name
    # The bare name of a parameter ("weight") does not say of which module it is.
    for dot in dots[:-1] if _PARAMETER.search(name) else dots:
        last = name[dot + 1 :] or last
        yield last
    if _PARAMETER.search(last):
        for length in range(len(last) - 1, 0, -1):
            yield "…" + last[len(last) - length + 1 :]
        return
    if "[" in last[1:]:
        last = f"{last[: last.index('[', 1)]}[…]"
        yield last
    for length in range(len(last) - 1, 0, -1):
        # A phrase ends with a word.
        if " " not in last[:length] or last[length - 1] == " ":
            yield last[: length - 1] + "…"


def _within_brackets(text: str, position: int) -> bool:
    before = text[:position]
    return before.count("[") > before.count("]") or before.count("(") > before.count(")")


def listed(form: str | Sequence[str], names: Sequence[str], known: Iterable[str] = ()) -> str:
    """Return a headline whose `{}` lists as many of `names` as fit, and says how many more there are.

    Where not all of them fit and they are all of the `known` names that begin alike, that stands for them
    (`encoder.*`). The first of several forms that fits with at least one whole name is taken. `names` must not be
    empty.
    """
    forms = [form] if isinstance(form, str) else list(form)
    names = [_plain(name) for name in names]
    rows = [_row(names[:count], len(names) - count) for count in range(min(len(names), MAX_LISTED), 0, -1)]
    shared = _shared_prefix(names)
    if shared and {name for name in known if name.startswith(f"{shared}.")} == set(names):
        rows.insert(1 if len(names) <= MAX_LISTED else 0, f"`{shared}.*`")
    for each in forms:
        for row in rows:
            text = each.format(row)
            if len(text) <= MAX_HEADLINE:
                return text
    more = len(names) - 1
    return headline([each.format("`{}`" + (f" and {more} more" if more else "")) for each in forms], names[0])


def in_full(text: str, names: Sequence[str], what: str = "without a gradient") -> list[str]:
    """Return a note with the names that a headline leaves out or shortens, as far as a line has room for them."""
    if all(f"`{name}`" in text for name in names):
        return []
    more = len(names) - MAX_LABELS
    row = [f"`{name}`" for name in names[:MAX_LABELS]] + ([f"{more} more"] if more > 0 else [])
    return [f"{what}: {join(row)}"]


def _shared_prefix(names: Sequence[str]) -> str:
    """Return the attributes that several dotted names begin with; empty where there are none."""
    parts = [name.split(".") for name in names]
    shared = []
    for column in zip(*(path[:-1] for path in parts)):
        if len(set(column)) > 1:
            break
        shared.append(column[0])
    return ".".join(shared) if len(names) > 1 else ""


def _row(names: Sequence[str], more: int) -> str:
    row = ", ".join(f"`{name}`" for name in names)
    return f"{row} and {more} more" if more else row


class Cutting(Protocol):
    """What words need of a cut."""

    @property
    def how(self) -> Untraining: ...
    @property
    def name(self) -> str: ...
    @property
    def off_at(self) -> Span | None: ...


def cut_words(cut: Cutting, home: Span) -> str:
    """Return what a cut does to its value, seen from a place."""
    value = quoted(cut.name, "the value")
    if cut.off_at is not None:
        off = f"`torch.set_grad_enabled` on {line(cut.off_at, home)}"
        return f"what is computed of {value} here has no graph: {off} has switched recording off"
    return CUT_WORDS.get(cut.how, "{value} leaves its graph here").format(value=value)


def cut_advice(cut: Cutting) -> str:
    """Return what to do about a cut, nothing where there is no general advice."""
    if cut.off_at is not None:
        return "switch recording on again before this is computed, `torch.set_grad_enabled(True)`"
    return CUT_ADVICE.get(cut.how, "")


def off_labels(cuts: Iterable[Cutting]) -> list[Label]:
    """Return where recording was switched off and left off."""
    places = dict.fromkeys(cut.off_at for cut in cuts if cut.off_at is not None)
    return [Label(place, "recording is switched off here", "cut") for place in places]


def call_text(backward: Backward, index: int = 0) -> str:
    """Return the call as it stands in the source, as far as the tape knows it, in backticks."""
    root = backward.roots[index] if index < len(backward.roots) else None
    name = root.name if root is not None else ""
    if backward.call == "grad":
        return f"`autograd.grad({name}, …)`" if name else "`autograd.grad(…)`"
    return f"`{name}.backward()`" if name else "this `.backward()`"


def backward_form(backward: Backward, index: int = 0) -> tuple[str, tuple[str, ...]]:
    """Return how a headline names a backward call: a form, and the names to fill it with."""
    root = backward.roots[index] if index < len(backward.roots) else None
    if root is None or not root.name:
        return ("`autograd.grad`" if backward.call == "grad" else "the backward"), ()
    return ("`autograd.grad({}, …)`" if backward.call == "grad" else "`{}.backward()`"), (root.name,)


def root_text(root: Root) -> str:
    return f"`{root.name}`" if root.name else "the tensor"


def quoted(name: str, otherwise: str) -> str:
    return f"`{name}`" if name else otherwise


def line(span: Span, home: Span) -> str:
    """Return a place in words, as seen from another: "line 16", or "models.py:16" in another file."""
    if span.is_unknown:
        return "a line that was not recorded"
    if span.file == home.file:
        return f"line {span.line}"
    return f"{span.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{span.line}"


def when(earlier: Site, later: Site) -> str:
    """Return how much earlier something happened in the loops that run around both, with a blank in front."""
    now = dict(later.iteration)
    for number, index in earlier.iteration:
        if number in now and now[number] != index:
            return " on the previous iteration" if now[number] - index == 1 else f" on iteration {index}"
    return ""


def freed_text(freeing: Run, failing: Run) -> str:
    """Return which backward freed a graph: "the backward on line 27", "this same call on the previous iteration"."""
    time = when(freeing.at, failing.at)
    if freeing.at.span == failing.at.span:
        return f"this same call{time or ' the time before'}"
    what = "backward" if freeing.backward.call == "backward" else "`autograd.grad`"
    return f"the {what} on {line(freeing.at.span, failing.at.span)}{time}"


def built_text(node: Node) -> str:
    """Return the label of the node that a backward fails at."""
    if node.op != GRADIENT and node.op.endswith(("Backward", "Backward0", "Backward1")):
        return f"the graph was built here, and `{node.op}` saved tensors"
    return "the graph was built here and saved tensors"


def swallowed(reading: Reading, run: Run) -> tuple[str, ...]:
    """Return what there is to note where the program swallows what a backward raises."""
    return (SWALLOWED,) if reading.caught(run) is not None else ()


def called_from(reading: Reading, site: Site, home: Site, limit: int = 3) -> list[Label]:
    """Return labels for the calls that led to a place, as far as they tell something.

    The one call of a function that runs once, such as `main()`, tells nothing of how two places meet.
    """
    told = reading.telling_calls(site)
    if site.stack and not told and site is not home and site.stack[0] not in home.stack:
        told = site.stack[:1]
    return [Label(span, "called from here", "called") for span in told[:limit] if span != home.span]


def join(texts: Iterable[str]) -> str:
    """Return words in a row: "a", "a and b", "a, b and c"."""
    items = list(texts)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def parameters_text(names: Iterable[str], most: int = 4) -> str:
    """Return parameters in a row, those that have a name; the rest of many is counted."""
    named = [name for name in dict.fromkeys(names) if name]
    return join([f"`{name}`" for name in named[:most]] + ([f"{len(named) - most} more"] if len(named) > most else []))


def deduped(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return each place of a role once, the first wording kept."""
    kept: dict[tuple[str, str, int], Label] = {}
    for label in labels:
        kept.setdefault((label.role, label.span.file, label.span.line), label)
    return tuple(list(kept.values())[:MAX_LABELS])


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding for each rule, file and line: the most certain story, with the other lines of the rest.

    Findings come in the order of the tapes; a shorter way to the place (an earlier iteration) wins a draw.
    """
    weight = {"error": 0, "warning": 1, "info": 2, "hint": 3}
    groups: dict[tuple[str, str, int], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.key, []).append(finding)
    best_of = []
    for group in groups.values():
        best = min(group, key=lambda finding: (not finding.certain, weight[finding.severity]))
        best.labels = deduped([*best.labels, *(label for other in group for label in other.labels)])
        best_of.append(best)
    return best_of


def possible(message: str) -> str:
    """Return the headline of a possible finding for that of a certain one."""
    if message.startswith("possible"):
        return message
    names = _NAME.findall(message)
    form = _NAME.sub("`{}`", message.replace("{", "{{").replace("}", "}}"))
    return headline([f"possible: {form}", f"possible: {_ASIDE.sub('', form)}"], *names)
