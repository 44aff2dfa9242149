"""How long an editor waits for the answer to `initialize`, beside a server of pygls that can do nothing.

    python benchmarks/lsp_start.py [--rounds 10]

Starts each server anew for each round, in turns, and prints the medians in milliseconds, from the start of the process
to the answer, and how long after that the first diagnostics of a small file are there; nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parents[1] / "server"
BARE = """
from pygls.lsp.server import LanguageServer
LanguageServer("bare", "1").start_io()
"""
FILE = "import torch\nw = torch.ones(3, requires_grad=True)\nloss = w.sum()\nloss.backward()\nloss.backward()\n"
CAPABILITIES = {"textDocument": {"codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": []}}}}}


def message(method: str, params: Any, number: int | None = None) -> bytes:
    """A request, or a notification where it has no number."""
    said = {"jsonrpc": "2.0", "method": method, "params": params}
    body = json.dumps(said if number is None else {**said, "id": number}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The next message of a server."""
    assert process.stdout is not None
    length = 0
    while (line := process.stdout.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    found: dict[str, Any] = json.loads(process.stdout.read(length))
    return found


def start(command: list[str], options: dict[str, Any] | None, file: bool) -> tuple[float, float]:
    """Milliseconds from the start of a server to its answer, and from there to diagnostics of a file."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(SERVER)}
    )
    assert process.stdin is not None
    params = {"processId": None, "rootUri": None, "capabilities": CAPABILITIES, "initializationOptions": options}
    process.stdin.write(message("initialize", params, 1))
    process.stdin.flush()
    while answer(process).get("id") != 1:
        pass
    answered = time.perf_counter()
    process.stdin.write(message("initialized", {}))
    if file:
        item = {"uri": "file:///benchmark/a.py", "languageId": "python", "version": 1, "text": FILE}
        process.stdin.write(message("textDocument/didOpen", {"textDocument": item}))
        process.stdin.flush()
        while answer(process).get("method") != "textDocument/publishDiagnostics":
            pass
    shown = time.perf_counter()
    process.stdin.write(message("shutdown", None, 2) + message("exit", None))
    process.stdin.flush()
    process.wait(10)
    return (answered - began) * 1000, (shown - answered) * 1000


def main() -> None:
    """Start the servers and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    settings = {"settings": {"enable": True, "lens": {"enable": True}, "ignore": []}}
    servers: dict[str, tuple[list[str], dict[str, Any] | None, bool]] = {
        "bare pygls": ([sys.executable, "-c", BARE], None, False),
        "tapecheck": ([sys.executable, "-m", "tapecheck.lsp"], None, True),
        "tapecheck, settings sent": ([sys.executable, "-m", "tapecheck.lsp"], settings, True),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
    for _ in range(rounds):
        for name, how in servers.items():
            took[name].append(start(*how))
    bare = statistics.median(one for one, _ in took["bare pygls"])
    for name, times in took.items():
        answered = statistics.median(one for one, _ in times)
        shown = (
            f", first diagnostics {statistics.median(one for _, one in times):.0f} ms later" if servers[name][2] else ""
        )
        print(f"{name}: initialize {answered:.0f} ms, {answered / bare:.2f} of a bare server{shown}")


if __name__ == "__main__":
    main()
