"""TAPE301: retain_graph=True where nothing traverses the graph again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tapecheck.rules.finding import Finding
from tapecheck.rules.missing_create_graph import gradients_taken
from tapecheck.rules.reading import Reading, Run
from tapecheck.rules.rule import Example, Rule
from tapecheck.rules.words import call_text, span_facts
from tapecheck.tape import Span


class NeedlessRetainGraph(Rule):
    """`retain_graph=True` is passed to a backward although no later backward runs through a node of this
    graph that holds saved tensors. The argument changes no result; it only keeps memory alive for longer.

    ## Why PyTorch does that

    `retain_graph=True` tells the engine not to free what the nodes saved once they have run. That is needed
    only if another backward runs through the same nodes. Two losses, two models or two backward calls are no
    reason by themselves: two forward passes, even through one model, make two graphs.

    ## What to do

    Remove the argument. The gradients stay the same, and the memory of the graph is released during the
    backward instead of when the last tensor that refers to it goes away.

    ## What is not a finding

    - Several losses on one forward pass: every backward but the last needs it.
    - `retain_graph=True` beside `create_graph=True`: it only states the default.
    - `retain_graph=True` where `create_graph=True` was meant, see TAPE401.
    - A loop over losses that share a graph: the call is needed there, even if its last run would not need it.
    - A backward through sums and means alone does not need a retained graph, but calling it twice is legal.

    Where another backward of the program raises, the rule judges what the program does once that is mended: it goes
    on as if the call had passed, and whatever the failing call would have walked counts as needed.
    """

    code = "TAPE301"
    name = "needless-retain-graph"
    severity = "info"
    summary = "retain_graph=True where no later backward runs through this graph"

    VALID = (
        Example(
            "One `functools.partial` for calls of which the first needs it",
            """\
import functools

import torch
from torch import nn

backward = functools.partial(torch.autograd.backward, retain_graph=True)
features, head = nn.Linear(4, 8), nn.Linear(8, 2)
hidden = features(torch.randn(6, 4)).tanh()
backward(head(hidden).pow(2).mean())
backward(hidden.abs().mean())
""",
        ),
        Example(
            "Two losses on one forward pass: the first backward must retain",
            """\
import torch
from torch import nn

trunk = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
age, kind = nn.Linear(16, 1), nn.Linear(16, 3)
for step in range(3):
    features = trunk(torch.randn(8, 6))
    age_loss = age(features).pow(2).mean()
    kind_loss = nn.functional.cross_entropy(kind(features), torch.randint(0, 3, (8,)))
    trunk.zero_grad()
    age_loss.backward(retain_graph=True)
    age_norm = trunk[0].weight.grad.norm().item()
    kind_loss.backward()
    print(age_norm, trunk[0].weight.grad.norm().item())
""",
        ),
        Example(
            "Beside create_graph=True it only states the default",
            """\
import torch
from torch import nn

critic = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(critic.parameters())
for step in range(3):
    x = torch.randn(8, 6, requires_grad=True)
    score = critic(x).sum()
    (gradient,) = torch.autograd.grad(score, x, create_graph=True, retain_graph=True)
    loss = ((gradient.norm(dim=1) - 1) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ),
        Example(
            "Rows of a Jacobian, each from the same graph",
            """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
x = torch.randn(4, requires_grad=True)
y = model(x)
rows = []
for row in range(3):
    rows.append(torch.autograd.grad(y[row], x, retain_graph=True)[0])
print(torch.stack(rows).shape)
""",
        ),
    )
    INVALID = (
        Example(
            "Two networks with inputs of their own",
            """\
import torch
from torch import nn

left, right = nn.Linear(6, 3), nn.Linear(4, 3)
left_optimizer = torch.optim.SGD(left.parameters(), lr=0.1)
right_optimizer = torch.optim.SGD(right.parameters(), lr=0.1)
for step in range(4):
    left_loss = left(torch.randn(5, 6)).pow(2).mean()
    right_loss = right(torch.randn(5, 4)).pow(2).mean()
    left_optimizer.zero_grad()
    right_optimizer.zero_grad()
    left_loss.backward(retain_graph=True)
    right_loss.backward()
    left_optimizer.step()
    right_optimizer.step()
""",
            line=12,
        ),
        Example(
            "The fake batch is detached for the discriminator",
            """\
import torch
from torch import nn

generator = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
discriminator = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(), nn.Linear(8, 1))
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(discriminator.parameters())
for step in range(3):
    fake = generator(torch.randn(4, 2))
    d_loss = discriminator(fake.detach()).mean() - discriminator(torch.randn(4, 3)).mean()
    d_optimizer.zero_grad()
    d_loss.backward(retain_graph=True)
    d_optimizer.step()
    g_loss = -discriminator(fake).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
""",
            line=12,
        ),
        Example(
            "The last backward on a graph need not retain it",
            """\
import torch
from torch import nn

gru, first_head, second_head = nn.GRU(2, 8), nn.Linear(8, 1), nn.Linear(8, 1)
_, hidden = gru(torch.randn(5, 3, 2))
first = first_head(hidden).pow(2).mean()
second = second_head(hidden).abs().mean()
first.backward(retain_graph=True)
second.backward(retain_graph=True)
""",
            line=9,
        ),
    )

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        # There the argument is not one too many, it is the wrong one.
        needed: set[Span] = gradients_taken(readings)
        # An argument that no call writes itself (that of a `functools.partial`, `**options`) may go for several calls.
        elsewhere: set[Span] = set()
        seen: dict[Span, Run] = {}
        beyond = {id(tape): tape for reading in readings for tape in reading.tape.beyond}
        ending = [reading for reading in readings if not reading.tape.beyond]
        for reading in [*ending, *map(Reading, beyond.values())]:
            chains = {run.at.span for chain in reading.growing_chains for run in chain.runs}
            for span, runs in reading.runs_by_site.items():
                retaining = [run for run in runs if run.backward.retain_argument in ("yes", "may")]
                if any(run.backward.retain_span is None for run in retaining):
                    elsewhere.add(span)
                if not retaining or span in needed:
                    continue
                whole = reading.complete or reading.tape.left_over
                if span in chains or not whole or not _all_needless(reading, retaining):
                    needed.add(span)
                    continue
                if not reading.complete:
                    continue
                sure = next((run for run in retaining if run.backward.retain_argument == "yes"), retaining[0])
                if span not in seen or seen[span].backward.retain_argument != "yes":
                    seen[span] = sure
        if elsewhere & needed:
            needed |= elsewhere
        return [self._finding(run) for span, run in seen.items() if span not in needed]

    def _finding(self, run: Run) -> Finding:
        home = run.at.span
        argument = run.backward.retain_span
        always = run.backward.retain_argument == "yes"
        message = "unnecessary `retain_graph=True`" if always else "unnecessary `retain_graph` argument"
        return Finding(
            self.code, self.name, self.severity, home, message,
            "remove the argument: same gradients, and the graph's memory is released during this call",
            (), True, True,
            facts={
                "argument": span_facts(argument) if argument is not None else None,
                "call": run.backward.call,
            },
            notes=(f"no later backward uses the tensors saved by the graph of {call_text(run.backward)}",),
        )  # fmt: skip


def _walks_the_unknown(reading: Reading, run: Run) -> bool:
    """Return whether a call walks a graph whose origin is unknown."""
    ledger = reading.ledger
    if run.backward.open and not run.backward.roots:
        return True
    if any(root.node is None and root.graph == "may" for root in run.backward.roots):
        return True
    walked: Iterable[int] = run.traversal.executed
    if run.traversal.problem is not None:
        walked = ledger.ancestry(root.node for root in run.backward.roots if root.node is not None)
    return any(ledger.leads_anywhere(node) for node in walked)


def _all_needless(reading: Reading, runs: list[Run]) -> bool:
    """Return whether nothing after any run of a retaining call depends on what it retained."""
    if any(run.backward.create != "no" or run.traversal.problem is not None for run in runs):
        return False
    if any(run.backward.id in reading.needed for run in runs):
        return False
    # Two values out of unknown code may have been computed from a third.
    unknown = [run for run in reading.runs if _walks_the_unknown(reading, run)]
    if any(run.position < unknown[-1].position for run in runs if run in unknown):
        return False
    given_away = [
        position
        for position, escape in reading.escapes
        if escape.open or any(map(reading.ledger.leads_anywhere, escape.nodes))
    ]
    if given_away and any(run.position < given_away[-1] and _walks_the_unknown(reading, run) for run in runs):
        return False
    # A failing backward stops early: what it would have walked counts. So does what unknown code got.
    failing = [run for run in reading.runs if run.traversal.problem is not None]
    starts = [root.node for run in failing for root in run.backward.roots if root.node is not None]
    starts += [node for _, escape in (*reading.escapes, *reading.built_by_unknown) for node in escape.nodes]
    if not starts:
        return True
    beyond = {
        node
        for node in reading.ledger.ancestry(starts)
        if node in reading.ledger.nodes and reading.ledger.nodes[node].keeps != "no"
    }
    return not any(beyond & run.traversal.executed.keys() for run in runs)
