"""A client that edits at random, and a model of the documents that the server must have.

    python -m tests.soak.protocol [--messages 100000] [--seed 1]

Every change is made to the model, too; the answer to a pull of diagnostics names the digest of the text that was
analysed, which must be the model's. Requests of other kinds, cancels and nonsense go between. Printed are the
messages, the answers that diverge, the requests without an answer, and the server's memory at the start and the end.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapecheck.lsp.document import digest_of
from tests.soak.wire import Wire

PROGRAM = """\
import torch
from torch import nn

net = nn.Linear(2, 1)  # \U0001f525 é
for step in range(3):
    loss = net(torch.ones(4, 2)).sum()
    loss.backward()
    loss.backward()
"""
PIECES = (
    "x", "\n", "\r\n", "\r", "    ", "\U0001f600", "é\u0301", "\u2028", "\x0c", "loss.backward()\n", "for i in y:\n",
    "(", ")", "'", '"""', "\t",
    "# tapecheck: ignore\n", "loss = loss + 1\n", "\u00a0", "with torch.no_grad():\n    ", "",
)  # fmt: skip
LONGEST = 4_000


@dataclass
class Model:
    """One document as the client has it; positions count UTF-16 units, as the server was told."""

    uri: str
    text: str
    version: int = 1
    asked: dict[int, str] = field(default_factory=dict)

    def lines(self) -> list[tuple[int, int]]:
        """Return where each line begins and where its text ends, in characters."""
        found, start, at = [], 0, 0
        while at < len(self.text):
            if self.text[at] in "\r\n":
                end = at
                at += 2 if self.text.startswith("\r\n", at) else 1
                found.append((start, end))
                start = at
            else:
                at += 1
        return [*found, (start, len(self.text))]

    def edit(self, rng: random.Random) -> dict[str, Any]:
        """Make a change and return it as the protocol has it."""
        if rng.random() < 0.01 or len(self.text) > LONGEST:
            self.text = PROGRAM
            return {"text": PROGRAM}
        lines = self.lines()
        first = rng.randrange(len(lines))
        last = min(len(lines) - 1, first + rng.choice((0, 0, 0, 1, 2)))
        begin, end = self._place(rng, lines, first), self._place(rng, lines, last)
        (start, start_at), (stop, stop_at) = sorted((begin, end), key=lambda place: place[1])
        piece = rng.choice(PIECES)
        self.text = self.text[:start_at] + piece + self.text[stop_at:]
        return {"range": {"start": start, "end": stop}, "text": piece}

    def _place(self, rng: random.Random, lines: list[tuple[int, int]], number: int) -> tuple[dict[str, int], int]:
        begin, end = lines[number]
        at = rng.randint(begin, end)
        units = len(self.text[begin:at].encode("utf-16-le")) // 2
        return {"line": number, "character": units}, at


@dataclass
class Outcome:
    """What a soak came to; memory in MB."""

    messages: int = 0
    pulls: int = 0
    diverged: int = 0
    unanswered: int = 0
    refused: Counter[int] = field(default_factory=Counter)
    memory: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return (
            f"{self.messages} messages, {self.pulls} pulls compared: {self.diverged} diverged, "
            f"{self.unanswered} requests unanswered, memory {self.memory[0]} MB at the start, {self.memory[1]} MB "
            f"at the end, refused {dict(self.refused)}"
        )


def soak(folder: Path, messages: int, seed: int) -> Outcome:
    """Send some messages and compare what comes back."""
    rng, outcome = random.Random(seed), Outcome()
    models = [Model((folder / f"{name}.py").as_uri(), PROGRAM) for name in ("a", "b", "c")]
    asked: list[int] = []
    with Wire(folder) as wire:
        wire.start()
        for model in models:
            wire.open(model.uri, model.text)
        warm = min(messages // 10, 500)
        for number in range(messages):
            if number == warm:
                outcome.memory = (_memory(wire.process.pid), 0)
            outcome.messages += 1
            model = rng.choice(models)
            chance = rng.random()
            if chance < 0.80:
                model.version += 1
                changes = [model.edit(rng) for _ in range(rng.choice((0, 1, 1, 1, 2, 3)))]
                identified = {"uri": model.uri, "version": model.version}
                wire.notify("textDocument/didChange", {"textDocument": identified, "contentChanges": changes})
            elif chance < 0.81:
                wire.notify("textDocument/didClose", {"textDocument": {"uri": model.uri}})
                wire.open(model.uri, model.text, model.version)
            elif chance < 0.83:
                # Compared at once: an edit that comes after it may be in the answer.
                _compare(wire, model, outcome)
            elif chance < 0.98:
                asked.append(_request(wire, model, rng))
                if rng.random() < 0.2:
                    wire.notify("$/cancelRequest", {"id": asked[-1]})
            else:
                wire.notify(rng.choice(("x/unknown", "$/setTrace", "textDocument/didSave")), {"value": "off"})
            if len(asked) >= 200:
                asked = _settle(wire, asked, outcome)
        _settle(wire, asked, outcome)
        for model in models:
            _compare(wire, model, outcome)
        outcome.memory = (outcome.memory[0], _memory(wire.process.pid))
        if wire.end() != 0:
            outcome.unanswered += 1
    return outcome


def _compare(wire: Wire, model: Model, outcome: Outcome) -> None:
    outcome.pulls += 1
    answer = wire.answer(wire.request("textDocument/diagnostic", {"textDocument": {"uri": model.uri}}), 300)
    told = str(answer.get("result", {}).get("resultId", "")).partition(".")[0]
    outcome.diverged += told != digest_of(model.text)


def _request(wire: Wire, model: Model, rng: random.Random) -> int:
    document = {"textDocument": {"uri": model.uri}}
    where = {"line": rng.randrange(12), "character": rng.randrange(20)}
    everything = {"start": {"line": 0, "character": 0}, "end": where}
    requests: list[tuple[str, Any]] = [
        ("textDocument/hover", {**document, "position": where}), ("textDocument/codeLens", document),
        ("textDocument/documentHighlight", {**document, "position": where}),
        ("textDocument/inlayHint", {**document, "range": everything}),
        ("textDocument/codeAction", {**document, "range": everything, "context": {"diagnostics": []}}),
        ("textDocument/hover", {"position": 5}), ("unknown/method", None), ("initialize", {"capabilities": {}}),
    ]  # fmt: skip
    return wire.request(*rng.choice(requests))


def _settle(wire: Wire, asked: list[int], outcome: Outcome) -> list[int]:
    """Wait for the answers of some requests."""
    for number in asked:
        try:
            answer = wire.answer(number, 300)
        except TimeoutError:
            outcome.unanswered += 1
            continue
        if "error" in answer:
            outcome.refused[answer["error"]["code"]] += 1
    return []


def _memory(process: int) -> int:
    """Return the megabytes that a process has in memory; 0 where nobody says."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0)


def main() -> int:
    """Print what a soak came to; the exit status says whether anything diverged or stayed unanswered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=100_000, help="(default: 100000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = soak(Path(folder), options.messages, options.seed)
    print(outcome)
    return outcome.diverged > 0 or outcome.unanswered > 0


if __name__ == "__main__":
    sys.exit(main())
