"""A language server that misbehaves on demand, for tests of the client: `server.py serve`.

Standard library only. FAKE_LOG names a file in which each message it gets is kept as a line of JSON, and
FAKE_MODE names a file whose text says how to behave:

- `die-at-start`: end before `initialize` is answered
- `die-on-hover`: end when a hover is asked for
- `wait-for-cancel`: a run goes on until it is cancelled
- anything else, or no file: behave
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

DIAGNOSTIC = {
    "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 6}},
    "severity": 2,
    "source": "tapecheck",
    "code": "TAPE101",
    "message": "the fake server was here",
}


def mode() -> str:
    try:
        return Path(os.environ["FAKE_MODE"]).read_text(encoding="utf-8").strip()
    except (KeyError, OSError):
        return ""


def read() -> dict[str, Any] | None:
    length = 0
    while line := sys.stdin.buffer.readline():
        if not line.strip():
            message: dict[str, Any] = json.loads(sys.stdin.buffer.read(length))
            with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
                log.write(json.dumps({"pid": os.getpid(), **message}) + "\n")
            return message
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return None


def send(**message: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def run(request: dict[str, Any]) -> None:
    token = request["params"]["arguments"][0]["token"]
    cancelled = False

    def report(**value: Any) -> None:
        send(method="$/progress", params={"token": token, "value": value})

    report(kind="begin", title="run", percentage=0, cancellable=True)
    report(kind="report", message="iteration 3 of 20", percentage=15)
    while mode() == "wait-for-cancel" and not cancelled:
        message = read()
        if message is None:
            sys.exit(1)
        cancel = message.get("method") == "window/workDoneProgress/cancel"
        cancelled = cancel and message["params"] == {"token": token}
    report(kind="end")
    confirmed, missed, summary = (0, 1, "cancelled") if cancelled else (1, 0, "1 confirmed")
    result = {"exit": confirmed, "confirmed": confirmed, "refuted": 0, "notReached": missed, "found": 0}
    send(id=request["id"], result={**result, "summary": summary})


def main() -> int:
    if mode() == "die-at-start":
        print("Traceback: the fake server dies at its start", file=sys.stderr)
        return 3
    while (message := read()) is not None:
        method, request = message.get("method"), message.get("id")
        if method == "initialize":
            commands = {"commands": ["tapecheck.run"]}
            capabilities = {"textDocumentSync": 1, "hoverProvider": True, "executeCommandProvider": commands}
            send(id=request, result={"capabilities": capabilities})
        elif method == "initialized":
            items = [{"section": "tapecheck"}]
            send(id="settings", method="workspace/configuration", params={"items": items})
        elif method == "textDocument/didOpen":
            uri = message["params"]["textDocument"]["uri"]
            send(method="textDocument/publishDiagnostics", params={"uri": uri, "diagnostics": [DIAGNOSTIC]})
        elif method == "textDocument/hover":
            if mode() == "die-on-hover":
                return 4
            send(id=request, result={"contents": {"kind": "markdown", "value": "fake hover"}})
        elif method == "workspace/executeCommand":
            run(message)
        elif method == "shutdown":
            send(id=request, result=None)
        elif method == "exit":
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
