"""The language server's own bytes: a client that sends whatever it is told to, right or wrong."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parents[2] / "server"
CAPTURES = Path(__file__).parents[1] / "lsp" / "captures"
SERVE = [sys.executable, "-m", "tapecheck.lsp"]


def framed(message: object) -> bytes:
    """Return a message with its header."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def abilities(editor: str = "vscode-1.139.1") -> dict[str, Any]:
    """Return what a real editor said it could do."""
    data: dict[str, Any] = json.loads((CAPTURES / f"{editor}.json").read_text(encoding="utf-8"))
    return dict(data["capabilities"])


def own_environment() -> dict[str, str]:
    """Return the environment in which a process runs this checkout."""
    # An empty entry would stand for the working directory.
    paths = os.pathsep.join(filter(None, [str(SERVER), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


class Wire:
    """A server in a process of its own and what it has answered so far, by the number of the request.

    Requests of the server are answered with null, `workspace/configuration` with `settings` for each item.
    """

    def __init__(self, folder: Path, command: Sequence[str] = SERVE) -> None:
        self.folder = folder
        self.settings: object = None
        self.answers: dict[Any, dict[str, Any]] = {}
        self.told: list[dict[str, Any]] = []
        self.unasked: list[dict[str, Any]] = []
        self._news: queue.Queue[None] = queue.Queue()
        self._numbers = 0
        self._writing = threading.Lock()
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=own_environment(),
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(10)
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()  # type: ignore[union-attr]
            except OSError:
                pass

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        with self._writing:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, **message: object) -> None:
        """Send a message, whatever it lacks."""
        self.raw(framed({"jsonrpc": "2.0", **message}))

    def notify(self, method: str, params: object) -> None:
        """Send a notification."""
        self.send(method=method, params=params)

    def request(self, method: str, params: object) -> int:
        """Send a request and return its number."""
        self._numbers += 1
        self.send(id=self._numbers, method=method, params=params)
        return self._numbers

    def answer(self, number: Any, seconds: float = 60.0) -> dict[str, Any]:
        """Wait for the answer of a request; raises TimeoutError where none comes."""
        end = time.monotonic() + seconds
        while number not in self.answers:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"request {number} is not answered")
            try:
                self._news.get(timeout=min(left, 1.0))
            except queue.Empty:
                if not self._reader.is_alive() and number not in self.answers:
                    raise TimeoutError(f"the server ended before it answered request {number}") from None
        return self.answers[number]

    def ask(self, method: str, params: object, seconds: float = 60.0) -> Any:
        """Send a request and return its result; raises AssertionError where it is answered with an error."""
        answer = self.answer(self.request(method, params), seconds)
        assert "error" not in answer, answer
        return answer["result"]

    def start(self, editor: str = "vscode-1.139.1", **changed: object) -> dict[str, Any]:
        """Initialize as a real editor does and return the server's result; `changed` replaces parameters."""
        uri = self.folder.as_uri()
        params: dict[str, Any] = {
            "processId": None, "rootUri": uri, "workspaceFolders": [{"uri": uri, "name": self.folder.name}],
            "capabilities": abilities(editor),
        }  # fmt: skip
        result: dict[str, Any] = self.ask("initialize", {**params, **changed})
        self.notify("initialized", {})
        return result

    def open(self, uri: str, text: str, version: int = 1) -> None:
        """Open a document of Python."""
        item = {"uri": uri, "languageId": "python", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})

    def end(self) -> int:
        """Shut the server down and return its exit status."""
        self.ask("shutdown", None)
        self.send(method="exit")
        return self.process.wait(60)

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline()).strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.strip().lower() == b"content-length" else length
            if not line:
                return
            message = json.loads(stream.read(length))
            if "method" not in message:
                if message.get("id") is None:
                    self.unasked.append(message)
                else:
                    assert message["id"] not in self.answers, f"answered twice: {message}"
                    self.answers[message["id"]] = message
            elif "id" in message:
                items = len((message.get("params") or {}).get("items", ()))
                asked = message["method"] == "workspace/configuration"
                try:
                    self.send(id=message["id"], result=[self.settings] * items if asked else None)
                except OSError:
                    pass
            else:
                self.told.append(message)
            self._news.put(None)
