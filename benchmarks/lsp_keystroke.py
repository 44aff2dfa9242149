"""How long after a keystroke the diagnostics are there: `didChange` to `publishDiagnostics`, over stdio.

    python benchmarks/lsp_keystroke.py [--lines 1000] [--keys 60] [--uncalled] [--file train.py] [--inside]
        [--newline blank|comment|statement]

Types a statement into the training function of a generated script (into the middle of the script of `--file`), one
letter at a time, and waits for the diagnostics of each version. With `--newline` lines are typed instead and taken away
again, each in one edit: blank ones into the first function, comments above everything, or statements into the first
function, from which the training cannot be reached. Prints milliseconds; nothing is asserted. `--inside`
does without a server and prints the processor time of the analyses, of the first hover and of the first fixes: figures
that other load on the machine changes less.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parents[1] / "server"
BLOCK = '''\

class Block{number}(nn.Module):
    """A residual block."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.inner(self.norm(x))


def load_{number}(path, limit=None):
    rows = []
    with open(path) as file:
        for line in file:
            rows.append([float(cell) for cell in line.split(",")])
            if limit is not None and len(rows) >= limit:
                break
    return torch.tensor(rows)


def score_{number}(predicted, targets):
    """How close the predictions of one group come to the targets."""
    error = (predicted - targets).abs()
    close = (error < 0.1).float().mean().item()
    worst = error.max().item()
    return {"close": close, "worst": worst, "mean": error.mean().item()}
'''
TAIL = """\

class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.blocks = nn.ModuleList([{blocks}])
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def evaluate(model, batches):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in batches:
            total += F.mse_loss(model(inputs), targets).item()
    model.train()
    return total / max(len(batches), 1)


def train(model, optimizer, batches, epochs):
    history = []
    for epoch in range(epochs):
        for inputs, targets in batches:
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), targets)
            loss.backward(retain_graph=True)
            optimizer.step()
            history.append(loss)
        print(epoch, evaluate(model, batches))
    return history


if __name__ == "__main__":
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [(torch.randn(16, 32), torch.randn(16, 1)) for _ in range(8)]
    train(model, optimizer, batches, epochs=3)
"""
CALLS = """\
    load_{number}("rows.csv")
    print(score_{number}(model(batches[0][0]), batches[0][1]))
"""


def script(lines: int, uncalled: bool = False) -> str:
    """A training script of so many lines: classes, data loading, evaluation and one training loop.

    Functions that nobody calls are the dearer ones: each is tried with unknown arguments.
    """
    calls = "" if uncalled else CALLS
    blocks = max((lines - TAIL.count("\n") - 4) // (BLOCK + calls).count("\n"), 1)
    body = "".join(BLOCK.replace("{number}", str(number)) for number in range(blocks))
    listed = ", ".join(f"Block{number}(width)" for number in range(min(blocks, 8)))
    text = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n" + body
    text += TAIL.replace("{blocks}", listed)
    text += "".join(calls.replace("{number}", str(number)) for number in range(blocks))
    return text + "# end\n" * (lines - text.count("\n"))


Change = tuple[int, int, int, int, str]
"""A line and character, the ones up to which the text is replaced, and what it is replaced by; all count from 0."""


def letters(lines: list[str], place: int, keys: int) -> list[Change]:
    """Statements typed in front of a line, one letter at a time."""
    column = len(lines[place]) - len(lines[place].lstrip())
    statement = " " * column + "".join(f"seen_{number} = {number}; " for number in range(keys))
    changes = [(place, column, place, column, statement[column : column + 1] + "\n" + " " * column)]
    for key in range(1, keys):
        changes.append((place, column + key, place, column + key, statement[column + key]))
    return changes


def newlines(lines: list[str], keys: int, kind: str) -> list[Change]:
    """Whole lines typed into the first function, comments above all else, and then taken away, the oldest first."""
    first = next(number for number, line in enumerate(lines) if line.startswith("def "))
    place = 0 if kind == "comment" else first + 1
    written = [
        {"blank": "    ", "comment": f"# remark {number}", "statement": f"    seen_{number} = {number}"}[kind]
        for number in range(keys // 2)
    ]
    changes = [(place + number, 0, place + number, 0, f"{line}\n") for number, line in enumerate(written)]
    return changes + [(place, 0, place + 1, 0, "") for _ in written]


class Client:
    """Just enough of a client."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SERVER)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tapecheck.lsp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def send(self, method: str, params: Any, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if number is None else {**message, "id": number}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return message

    def diagnostics(self, version: int) -> list[Any]:
        """Waits for the diagnostics of a version."""
        while True:
            message = self.read()
            if message.get("method") == "textDocument/publishDiagnostics":
                if message["params"]["version"] == version:
                    found: list[Any] = message["params"]["diagnostics"]
                    return found


def inside(text: str, path: str, changes: list[Change]) -> None:
    """Print the processor time of each step in this process, as the server's threads would take it."""
    sys.path.insert(0, str(SERVER))
    from tapecheck.fixes import strategies, verify
    from tapecheck.lsp import garbage
    from tapecheck.lsp.document import Position
    from tapecheck.lsp.session import Session

    assert strategies and verify, "a server has them loaded by the time that somebody asks for fixes"
    clock = time.process_time
    garbage.hold()
    session = Session()
    document = session.open("file:///", path, text, 1)
    took, collecting = [], []
    for key, (line, character, end, until, typed) in enumerate([(0, 0, 0, 0, ""), *changes]):
        document.edit(Position(line, character), Position(end, until), typed, "utf-16", key + 1)
        started = clock()
        snapshot = session.snapshot("file:///")
        analysis = session.analyse(snapshot) if snapshot is not None else None
        assert analysis is not None
        shown = session.shown(analysis)
        ended = clock()
        gc.collect(1)
        collecting.append((clock() - ended) * 1000)
        took.append((ended - started) * 1000)
    print(f"lines {text.count(chr(10))}, findings {len(shown)}, first analysis {took.pop(0):.0f} ms of processor time")
    took.sort()
    last = took[min(round(len(took) * 0.95), len(took) - 1)]
    print(f"a keystroke: median {statistics.median(took):.1f} ms, 95th percentile {last:.1f} ms")
    print(f"garbage behind each: median {statistics.median(collecting):.1f} ms")
    if not shown:
        return
    finding = shown[0].finding
    started = clock()
    session.hover(analysis, finding.span.line, finding.span.column)
    hovered = clock()
    found = session.fixes(analysis, finding)
    print(f"first hover {(hovered - started) * 1000:.1f} ms, {len(found)} fixes {(clock() - hovered) * 1000:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--uncalled", action="store_true", help="leave most functions without a caller")
    parser.add_argument("--file", type=Path, help="a script of your own")
    parser.add_argument("--inside", action="store_true", help="without a server, in processor time")
    parser.add_argument("--newline", choices=("blank", "comment", "statement"), help="type whole lines of a kind")
    options = parser.parse_args()
    text = options.file.read_text(encoding="utf-8") if options.file else script(options.lines, options.uncalled)
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if re.match(r"\s+\w+ = \w", line)]
    place = lines.index("            optimizer.zero_grad()") if not options.file else starts[len(starts) // 2]
    kind = options.newline
    changes = newlines(lines, options.keys, kind) if kind else letters(lines, place, options.keys)
    if options.inside:
        inside(text, str(options.file.resolve()) if options.file else "/benchmark/train.py", changes)
        return
    client = Client()
    client.send("initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": {}}, 1)
    client.read()
    client.send("initialized", {})
    uri = options.file.resolve().as_uri() if options.file else "file:///benchmark/train.py"
    item = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    started = time.perf_counter()
    client.send("textDocument/didOpen", {"textDocument": item})
    found = client.diagnostics(1)
    opened = time.perf_counter() - started
    took = []
    for key, (line, character, end, until, typed) in enumerate(changes):
        where = {"start": {"line": line, "character": character}, "end": {"line": end, "character": until}}
        change = {"range": where, "text": typed}
        started = time.perf_counter()
        client.send(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": key + 2}, "contentChanges": [change]},
        )
        client.diagnostics(key + 2)
        took.append((time.perf_counter() - started) * 1000)
    client.send("shutdown", None, 2)
    client.send("exit", None)
    client.process.wait(10)
    took.sort()
    last = took[min(round(len(took) * 0.95), len(took) - 1)]
    print(f"lines {text.count(chr(10))}, findings {len(found)}, first diagnostics {opened * 1000:.0f} ms")
    spent = os.times()
    cpu = (spent.children_user + spent.children_system) * 1000 / (options.keys + 1)
    print(f"processor time of the server, start included: {cpu:.0f} ms a keystroke")
    print(f"keystroke to diagnostics: median {statistics.median(took):.1f} ms, 95th percentile {last:.1f} ms")


if __name__ == "__main__":
    main()
