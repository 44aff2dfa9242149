"""TAPE202: each retained backward in a loop walks the graphs of all earlier iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tapecheck.rules.finding import Finding, Label
from tapecheck.rules.origin import Origin
from tapecheck.rules.reading import Chain, Reading, iteration_in
from tapecheck.rules.rule import Example, Rule
from tapecheck.rules.words import called_from, quoted, span_facts
from tapecheck.tape import Site


class GrowingChain(Rule):
    """`retain_graph=True` in a loop makes a program run whose state is carried from iteration to iteration
    with its graph. Each backward then walks the graphs of all earlier iterations as well: the second
    iteration does the work of two, the hundredth that of a hundred, and none of the memory is ever released.

    ## Why PyTorch does that

    A value carried into the next iteration brings along the nodes that made it. Without `retain_graph` the
    second backward would raise (TAPE101). With it the saved tensors of every iteration stay alive, and the
    engine walks the whole chain each time. The gradients also change: they flow through all iterations since
    the start, and those of earlier iterations are added once more each time.

    ## What to do

    Cut the carried value where an iteration ends, `state = state.detach()`, and drop `retain_graph=True`.
    Where gradients through several iterations are wanted, sum the losses of a window of fixed length, call
    backward once at its end, and cut there (truncated backpropagation through time).

    ## What is not a finding

    - Several losses on one forward pass, each backwarded with `retain_graph=True`: all of them walk that one
      pass.
    - A chain that fails: then TAPE101 or TAPE102 tells the story.
    """

    code = "TAPE202"
    name = "growing-chain"
    severity = "warning"
    summary = "retain_graph=True hides a chain: each backward walks all earlier iterations"

    VALID = (
        Example(
            "A window of four steps is kept, walked again, and cut",
            """\
import torch
from torch import nn

cell, head = nn.RNNCell(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.05)
state = torch.zeros(2, 5)
for step in range(16):
    state = cell(torch.randn(2, 3), state)
    last = (step + 1) % 4 == 0
    head(state).pow(2).mean().backward(retain_graph=not last)
    if last:
        optimizer.step()
        optimizer.zero_grad()
        state = state.detach()
""",
        ),
        Example(
            "The carried mean is cut in each episode",
            """\
import torch
from torch import nn

embed = nn.Linear(10, 6)
optimizer = torch.optim.Adam(embed.parameters())
center = torch.zeros(6)
for episode in range(4):
    z = embed(torch.randn(8, 10))
    center = 0.8 * center.detach() + 0.2 * z.mean(0)
    loss = (z.detach() - center).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ),
        Example(
            "Several losses on one forward pass",
            """\
import torch
from torch import nn

trunk = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
heads = [nn.Linear(8, 1) for _ in range(3)]
for step in range(4):
    features = trunk(torch.randn(6, 5))
    losses = [head(features).pow(2).mean() for head in heads]
    gradients = []
    for number, loss in enumerate(losses):
        trunk.zero_grad()
        loss.backward(retain_graph=number + 1 < len(losses))
        gradients.append(trunk[0].weight.grad.norm().item())
    print(gradients)
""",
        ),
    )
    INVALID = (
        Example(
            "A running mean carries the graph of every episode",
            """\
import torch
from torch import nn

embed = nn.Linear(10, 6)
optimizer = torch.optim.Adam(embed.parameters())
center = torch.zeros(6)
for episode in range(5):
    z = embed(torch.randn(8, 10))
    center = 0.8 * center + 0.2 * z.mean(0)
    loss = (z.detach() - center).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
""",
            line=12,
        ),
        Example(
            "Only the head is trained, so the retained LSTM chain never fails",
            """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 8, batch_first=True)
        self.head = nn.Linear(8, 2)
        self.state = None

    def forward(self, x):
        output, self.state = self.lstm(x, self.state)
        return self.head(output[:, -1])


model = Tagger()
optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
for chunk in torch.randn(5, 3, 20, 4):
    loss = nn.functional.cross_entropy(model(chunk), torch.randint(0, 2, (3,)))
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
""",
            line=22,
        ),
    )

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        return [self._finding(readings, reading, chain) for reading in readings for chain in reading.growing_chains]

    def _finding(self, readings: Sequence[Reading], reading: Reading, chain: Chain) -> Finding:
        last = chain.runs[-1]
        home = last.at.span
        certain = all(
            any(other.runs[-1].at.span == home for other in far.growing_chains)
            for far in readings
            if len(far.runs_by_site.get(home, ())) >= len(reading.runs_by_site[home])
        )
        carrier = _carrier(reading, chain)
        name, at, node = carrier if carrier is not None else ("", None, 0)
        lengths = ", ".join(map(str, chain.lengths))
        headline = "each backward re-walks all previous iterations"
        labels = []
        if at is not None:
            labels.append(
                Label(at.span, f"{quoted(name, 'a value')} carries its graph into the next iteration", "carried")
            )
        oldest = _oldest(reading, chain)
        if oldest is not None and (at is None or oldest.line != at.line):
            labels.append(Label(oldest.span, "nodes of the first iteration, walked again in every later one", "built"))
        labels += called_from(reading, last.at, last.at)
        cut = _cutting(name, reading.elements_of(name, node)) if name else "`.detach()` on the carried value"
        retain = last.backward.retain_span
        drop = "remove `retain_graph=True`" if retain is not None else "the graph need not be retained then"
        return Finding(
            self.code, self.name, self.severity, home, headline if certain else f"possible growing chain: {headline}",
            f"cut the graph between iterations, {cut} before it is used again, and {drop}",
            tuple(labels), certain,
            facts={
                "name": name,
                "stored": span_facts(at.span) if at is not None else None,
                "argument": span_facts(retain) if retain is not None else None,
                "nodes": chain.lengths,
                "loop": span_facts(chain.loop.event.at.span),
            },
            notes=(f"walks {lengths}, … nodes in successive iterations: slower each time, and no memory is released",),
        )  # fmt: skip


def _cutting(name: str, elements: Literal["", "tuple", "list"]) -> str:
    """Return what cuts the graph of a carried value, of which a tuple's or container's elements have each their own."""
    if elements == "list":
        return f"`.detach()` each tensor in `{name}`"
    return f"`{Origin('carried', name, elements=elements).detaching}`"


def _carrier(reading: Reading, chain: Chain) -> tuple[str, Site, int] | None:
    """Return the value that leads from the last backward's own iteration to the one before: its name, place and
    node.
    """
    last = chain.runs[-1]
    now = iteration_in(last.at, chain.loop)
    roots = [root.node for root in last.backward.roots if root.node is not None]
    old = [node for node in last.traversal.executed if 0 < reading.iteration_of(node, chain.loop) < now]
    if not old:
        return None
    for number in reading.path(roots, min(old)):
        iteration = reading.iteration_of(number, chain.loop)
        if iteration and iteration < now:
            found = reading.carried_by(number, chain.loop, iteration, last.position)
            return (*found, number) if found is not None else None
    return None


def _oldest(reading: Reading, chain: Chain) -> Site | None:
    last = chain.runs[-1]
    nodes = [node for node in last.traversal.retraversed if reading.iteration_of(node, chain.loop)]
    return reading.site(min(nodes)) if nodes else None
