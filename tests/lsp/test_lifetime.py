"""How the server starts and how it ends, whatever the client does."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pygls.io_ import StdoutWriter

from tapecheck.lsp.parent import alive, until_gone
from tapecheck.lsp.protocol import Protocol
from tapecheck.lsp.wiring import create_server
from tests.lsp.harness import FAKE, REAL

ROOT = Path(__file__).parents[2]
HUNG = 300
"""Seconds after which something that should have happened is taken not to happen any more."""


class Wire:
    """A client that knows nothing but how messages are framed."""

    def __init__(self, command: list[str], **options: Any) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "server")}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            **options,
        )
        self.number = 0

    def send(self, method: str, params: Any = None, *, request: bool = False) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if request:
            self.number += 1
            message["id"] = self.number
        self.write(json.dumps(message).encode())

    def write(self, body: bytes) -> None:
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

    def answer(self) -> dict[str, Any]:
        while "id" not in (message := self.read()):
            pass
        return message

    def start(self, editor: int | None = None) -> dict[str, Any]:
        self.send("initialize", {"processId": editor, "rootUri": None, "capabilities": {}}, request=True)
        answer = self.answer()
        self.send("initialized", {})
        return answer

    def end(self) -> int:
        try:
            return self.process.wait(HUNG)
        finally:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                try:
                    pipe.close()  # type: ignore[union-attr]
                except OSError:
                    pass


def opened(text: str) -> dict[str, Any]:
    return {"textDocument": {"uri": "file:///t.py", "languageId": "python", "version": 1, "text": text}}


@pytest.mark.parametrize("command", [REAL, [sys.executable, "-m", "tapecheck", "serve"]], ids=["room", "cli"])
def test_a_client_without_any_abilities_is_served(command: list[str]) -> None:
    wire = Wire(command)
    capabilities = wire.start()["result"]["capabilities"]
    assert "diagnosticProvider" not in capabilities
    assert capabilities["textDocumentSync"]["change"] == 2
    wire.send("textDocument/didOpen", opened("x = 1\n"))
    assert wire.read()["method"] == "textDocument/publishDiagnostics"
    wire.send("shutdown", request=True)
    assert wire.answer()["result"] is None
    wire.send("exit")
    assert wire.end() == 0


def test_exit_without_shutdown_is_a_failure() -> None:
    wire = Wire(FAKE)
    wire.start()
    wire.send("exit")
    assert wire.end() == 1


def run_forever(wire: Wire, folder: Path) -> None:
    """Begin a run that goes on until it is cancelled."""
    script = folder / "forever.py"
    script.write_text("# forever\n")
    command = {"command": "tapecheck.run", "arguments": [{"uri": script.as_uri()}]}
    wire.send("workspace/executeCommand", command, request=True)
    while "epoch 1" not in json.dumps(wire.read()):
        pass


@pytest.mark.parametrize("moment", ["at once", "started", "while analysing", "while running"])
def test_a_client_that_disappears_takes_the_server_with_it(tmp_path: Path, moment: str) -> None:
    wire = Wire(FAKE)
    if moment != "at once":
        wire.start()
    if moment == "while analysing":
        wire.send("textDocument/didOpen", opened("# endless\n"))
        assert wire.process.stderr is not None
        while b"analysis begun" not in wire.process.stderr.readline():
            pass
    if moment == "while running":
        run_forever(wire, tmp_path)
    assert wire.process.stdin is not None and wire.process.stdout is not None
    wire.process.stdin.close()
    wire.process.stdout.close()
    # What was going on ends only when it is cancelled.
    assert wire.end() == 1


@pytest.mark.parametrize("moment", ["idle", "while running"])
def test_an_editor_that_is_killed_takes_the_server_with_it(tmp_path: Path, moment: str) -> None:
    """Its standard input stays open, as where another child of the editor has inherited the other end."""
    editor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    wire = Wire(FAKE)
    try:
        wire.start(editor.pid)
        if moment == "while running":
            run_forever(wire, tmp_path)
        assert wire.process.poll() is None
        editor.kill()
        editor.wait()
        assert wire.process.wait(HUNG) == 1
    finally:
        editor.kill()
        editor.communicate()
        wire.end()


async def test_only_a_process_that_is_there_is_watched() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert [alive(number) for number in (os.getpid(), 1, gone.pid, 0, -1, 2**80)] == [True, True, *[False] * 4]
    await until_gone(gone.pid)
    wire = Wire(FAKE)
    wire.start(gone.pid)
    wire.send("textDocument/didOpen", opened("x = 1\n"))
    assert wire.read()["method"] == "textDocument/publishDiagnostics"
    wire.send("exit")
    assert wire.end() == 1


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b'"text"', b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "method": 3}', b"\xff\xfe"],
)
def test_nonsense_on_the_wire_is_survived(body: bytes) -> None:
    wire = Wire(FAKE)
    wire.start()
    wire.write(body)
    wire.send("textDocument/didOpen", opened("loss.backward()\nloss.backward()\n"))
    while (message := wire.read()).get("method") != "textDocument/publishDiagnostics":
        assert message.get("method") != "window/showMessage"
    assert len(message["params"]["diagnostics"]) == 1
    wire.process.stdin.close()  # type: ignore[union-attr]
    wire.end()


def test_messages_that_are_done_leave_nothing_behind() -> None:
    """A day of typing is a hundred thousand notifications: pygls keeps something of each."""
    change = {"textDocument": {"uri": "file:///t.py", "version": 2}, "contentChanges": [{"text": "y = 2\n"}]}
    place = {"textDocument": {"uri": "file:///t.py"}, "position": {"line": 0, "character": 0}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": opened("x = 1\n")},
        *({"method": "textDocument/didChange", "params": change} for _ in range(50)),
        *({"id": number, "method": "textDocument/hover", "params": place} for number in range(2, 30)),
    ]
    server, sink = create_server(), io.BytesIO()
    protocol = server.protocol
    assert isinstance(protocol, Protocol)

    async def receive() -> None:
        protocol.set_writer(StdoutWriter(sink))
        for message in messages:
            protocol.receive({"jsonrpc": "2.0", **message})
            await asyncio.sleep(0)
        for _ in range(HUNG * 100):
            if sink.getvalue().count(b'"result"') == 29:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)

    try:
        asyncio.run(receive())
        assert sink.getvalue().count(b'"result"') == 29
        assert protocol._request_futures == {}
    finally:
        server.shutdown()


def test_what_cannot_be_sent_is_reported_once() -> None:
    """A server that ends has answers left: each would report that it cannot be sent, and so would the report."""

    class Closed(io.BytesIO):
        tries = 0

        def write(self, data: object) -> int:
            Closed.tries += 1
            raise ValueError("I/O operation on closed file.")

    server = create_server()
    server.protocol.set_writer(StdoutWriter(Closed()))
    server.log("hello")
    assert Closed.tries == 2
    server.shutdown()


def test_a_server_answers_before_it_loads_the_dry_run() -> None:
    """What `initialize` waits for is what answers it: rules, tapes and the interpreter are loaded behind it."""
    code = "import sys, tapecheck.lsp.server; print(*(name for name in sys.modules if name.startswith('tapecheck.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = {name.split(".")[1] for name in loaded}
    assert rooms == {"lsp", "source", "version"}
