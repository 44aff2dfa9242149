"""TAPE103: the root of a backward has no graph."""

from __future__ import annotations

from collections.abc import Sequence

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.missing_create_graph import undifferentiable
from tapecheck.rules.path import always, path_labels
from tapecheck.rules.reading import Reading, Run, with_sources
from tapecheck.rules.rule import Example, Rule
from tapecheck.rules.words import (
    SWALLOWED,
    called_from,
    cut_advice,
    cut_words,
    headline,
    off_labels,
    root_text,
    span_facts,
)
from tapecheck.tape import Cut, Root


class BackwardWithoutGraph(Rule):
    """A backward starts from a tensor that carries no graph. PyTorch raises "element 0 of tensors does not
    require grad and does not have a grad_fn".

    ## Why PyTorch does that

    A tensor has a graph only if something it was computed from requires grad and every step on the way was
    recorded. `.detach()`, `.data`, `.item()`, NumPy, `torch.no_grad()`, `torch.tensor(loss)` and operations
    without a gradient such as `argmax` or a comparison all give a tensor that has the value but not the
    graph. A backward from there has nothing to follow.

    ## What to do

    - Take the cut on the way out: the labels say where it is.
    - For a loss on class predictions use the logits (`cross_entropy`), not their `argmax`.
    - Collect losses with `torch.stack(losses)` or `sum(losses)`, never with `torch.tensor(losses)`.
    - If all parameters are frozen, unfreeze those that the optimizer shall train.

    Setting `loss.requires_grad = True` makes the error go away and trains nothing: the loss becomes a leaf of
    its own, see TAPE402.

    ## What is not a finding

    - A detached tensor in a loss that still reaches other parameters, for example a target.
    - A loss that starts as a constant and gets its terms under conditions on data (`if mask.any():`): that all of
      them fail in one iteration is not reported.
    - A backward from a gradient that was taken without `create_graph=True`: that is TAPE401.
    """

    code = "TAPE103"
    name = "backward-without-graph"
    severity = "error"
    raises = True
    summary = "A backward starts from a tensor that has no graph"

    VALID = (
        Example(
            "Only the target is detached",
            """\
import torch
from torch import nn

model, target_model = nn.Linear(4, 2), nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state, following = torch.randn(8, 4), torch.randn(8, 4)
target = 0.9 * target_model(following).max(1).values.detach()
loss = (model(state).max(1).values - target).pow(2).mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
        ),
        Example(
            "Losses are collected with torch.stack",
            """\
import torch
from torch import nn

model = nn.Linear(3, 1)
losses = []
for part in range(4):
    losses.append(model(torch.randn(5, 3)).pow(2).mean())
total = torch.stack(losses).mean()
total.backward()
""",
        ),
    )
    INVALID = (
        Example(
            "The output is detached before the loss",
            """\
import torch
from torch import nn

gru = nn.GRU(4, 8)
optimizer = torch.optim.Adam(gru.parameters())
output, _ = gru(torch.randn(6, 2, 4))
output = output.detach()
loss = nn.functional.mse_loss(output, torch.randn(6, 2, 8))
optimizer.zero_grad()
loss.backward()
optimizer.step()
""",
            line=10,
            raises="element 0 of tensors does not require grad",
        ),
        Example(
            "The loss is computed on class predictions",
            """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x, label = torch.randn(8, 6), torch.randint(0, 3, (8,))
    predicted = model(x).argmax(1)
    loss = (predicted != label).float().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
            line=11,
            raises="element 0 of tensors does not require grad",
        ),
        Example(
            "A new tensor is made of the losses' values",
            """\
import torch
from torch import nn

model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = [model(torch.randn(5, 3)).pow(2).mean().item() for part in range(4)]
total = torch.tensor(losses).mean()
optimizer.zero_grad()
total.backward()
optimizer.step()
""",
            line=9,
            raises="element 0 of tensors does not require grad",
        ),
    )

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        findings = []
        for reading in readings:
            for run in reading.runs:
                problem = run.traversal.problem
                if problem is None or problem.kind != "no-graph" or problem.certain != "yes":
                    continue
                root = run.backward.roots[problem.root]
                cuts = with_sources(reading, root.cuts)
                if undifferentiable(reading, root.cuts) or (not cuts and _lacks_terms(readings, reading, run)):
                    continue
                findings.append(self._finding(readings, reading, run, root, list(cuts.values())))
        return findings

    def _finding(self, readings: Sequence[Reading], reading: Reading, run: Run, root: Root, cuts: list[Cut]) -> Finding:
        home = run.at.span
        certain = always(readings, reading, run)
        notes = [] if cuts else [f"no recorded operation computed {root_text(root)} from a tensor that requires grad"]
        labels = []
        for cut in sorted(cuts, key=lambda cut: cut.id):
            labels.append(Label(cut.at.span, cut_words(cut, home), "cut"))
            labels += called_from(reading, cut.at, run.at, 1)
        labels += off_labels(cuts)
        if not certain:
            labels += path_labels(readings, reading, run)
        if reading.caught(run) is not None:
            notes.append(SWALLOWED)
        labels += called_from(reading, run.at, run.at)
        return Finding(
            self.code, self.name, self.severity, home, _headline(root, certain), _help(cuts, root), tuple(labels),
            certain,
            facts={
                "root": root.name,
                "cuts": [{"how": cut.how, "name": cut.name, "span": span_facts(cut.at.span)} for cut in cuts],
                "call": run.backward.call,
            },
            notes=tuple(notes),
        )  # fmt: skip


def _lacks_terms(readings: Sequence[Reading], reading: Reading, run: Run) -> bool:
    """Return whether a root that nothing was cut off from may only lack the terms that conditions on data add to it.

    That it has no graph then needs every such condition to come out so, in every iteration.
    """
    if not always(readings, reading, run):
        return True
    untried = reading.tape.untried
    return any(
        (decision.at.span.file, decision.at.span.line, decision.at.span.column) in untried
        for position, decision in reading.decisions
        if position < run.position
    )


def _headline(root: Root, certain: bool) -> str:
    names = (root.name,) if root.name else ()
    tensor = "`{}`" if names else "this tensor"
    if certain:
        return headline(f"{tensor} has no graph: nothing to differentiate", *names)
    return headline(f"possible missing graph of {tensor}: nothing to differentiate", *names)


def _help(cuts: list[Cut], root: Root) -> str:
    if not cuts:
        return (
            f"compute {root_text(root)} from at least one parameter with `requires_grad=True`, and not under "
            "`torch.no_grad()`"
        )
    hows = list(dict.fromkeys(cut.how for cut in sorted(cuts, key=lambda cut: cut.id)))
    advice = "; ".join(filter(None, dict.fromkeys(map(cut_advice, sorted(cuts, key=lambda cut: cut.id)))))
    advice = advice or f"keep {root_text(root)} a tensor computed from the parameters by torch operations"
    if "nondifferentiable" in hows or "leaf" in hows:
        return advice
    return f"{advice} (setting `requires_grad` on the loss would hide the error and train nothing)"
