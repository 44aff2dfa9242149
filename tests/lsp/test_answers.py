"""Every request is answered, once, with the error that the protocol has for it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as t

from tests.soak.wire import Wire, framed

TWICE = "import torch\nw = torch.ones(3, requires_grad=True)\nloss = (w * w).sum()\nloss.backward()\nloss.backward()\n"
PARSE, REQUEST, METHOD, PARAMS, EARLY = -32700, -32600, -32601, -32602, -32002
JUNK: list[object] = [None, {}, [], "x", 5, True, {"textDocument": 5}, {"textDocument": {"uri": 5}}]


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    with Wire(tmp_path) as one:
        yield one


def code(answer: dict[str, Any]) -> int | None:
    return answer["error"]["code"] if "error" in answer else None


def soon(holds: Callable[[], bool]) -> bool:
    """Wait for something to hold."""
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def good(uri: str) -> dict[str, dict[str, Any]]:
    """Parameters that each of our requests takes."""
    document, start = {"textDocument": {"uri": uri}}, {"line": 4, "character": 6}
    everything = {"start": {"line": 0, "character": 0}, "end": start}
    return {
        t.TEXT_DOCUMENT_HOVER: {**document, "position": start},
        t.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT: {**document, "position": start},
        t.TEXT_DOCUMENT_INLAY_HINT: {**document, "range": everything},
        t.TEXT_DOCUMENT_CODE_LENS: document,
        t.TEXT_DOCUMENT_DIAGNOSTIC: document,
        t.TEXT_DOCUMENT_CODE_ACTION: {**document, "range": everything, "context": {"diagnostics": []}},
        t.WORKSPACE_EXECUTE_COMMAND: {"command": "tapecheck.explainRule", "arguments": ["TAPE101"]},
    }


def broken(params: dict[str, Any]) -> Iterator[Any]:
    """Yield the parameters with each of their members left out or of another type, at every depth."""
    for key, value in params.items():
        yield {name: other for name, other in params.items() if name != key}
        for wrong in (None, 5, "x", [5], {"a": 1}, True, -1, 1.5):
            if type(wrong) is not type(value):
                yield {**params, key: wrong}
        if isinstance(value, dict):
            for inner in broken(value):
                yield {**params, key: inner}


def test_wrong_parameters_are_answered_as_such(wire: Wire, tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    wire.start()
    wire.open(uri, TWICE)
    asked: dict[int, tuple[str, object]] = {}
    for method, params in good(uri).items():
        for wrong in itertools.chain(JUNK, broken(params)):
            # Optional members may be left out, and the arguments of commands are theirs.
            optional = method == t.WORKSPACE_EXECUTE_COMMAND and isinstance(wrong, dict) and wrong.get("command")
            if not optional:
                asked[wire.request(method, wrong)] = (method, wrong)
    assert len(asked) > 300
    for number, (method, wrong) in asked.items():
        assert code(wire.answer(number)) == PARAMS, (method, wrong, wire.answer(number))
    for method, params in good(uri).items():
        wire.ask(method, params)
    assert wire.end() == 0


def test_requests_before_initialize_and_after_shutdown_are_refused(wire: Wire, tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    hover = good(uri)[t.TEXT_DOCUMENT_HOVER]
    for method in (t.TEXT_DOCUMENT_HOVER, t.SHUTDOWN, "nonsense/method"):
        assert code(wire.answer(wire.request(method, hover))) == EARLY
    wire.open(uri, TWICE)
    assert code(wire.answer(wire.request(t.INITIALIZE, {"capabilities": 5}))) == PARAMS
    wire.start()
    assert code(wire.answer(wire.request(t.INITIALIZE, {"processId": None, "capabilities": {}}))) == REQUEST
    assert wire.ask(t.TEXT_DOCUMENT_HOVER, hover) is None, "what was opened before counts for nothing"
    assert wire.ask(t.SHUTDOWN, None) is None
    for method in (t.TEXT_DOCUMENT_HOVER, t.SHUTDOWN, t.INITIALIZE, "nonsense/method"):
        assert code(wire.answer(wire.request(method, hover))) == REQUEST
    wire.send(method=t.EXIT)
    assert wire.process.wait(60) == 0


def test_what_is_no_request_is_refused_and_the_rest_goes_on(wire: Wire, tmp_path: Path) -> None:
    wire.start()
    assert code(wire.answer(wire.request("nonsense/method", None))) == METHOD
    assert code(wire.answer(wire.request("$/nonsense", None))) == METHOD
    assert code(wire.answer(wire.request(t.WORKSPACE_EXECUTE_COMMAND, {"command": "nonsense"}))) == PARAMS
    assert code(wire.answer(wire.request(t.TEXT_DOCUMENT_DID_CLOSE, {"textDocument": {"uri": "x"}}))) == REQUEST
    wire.raw(framed({"jsonrpc": "1.0", "id": "a", "method": t.TEXT_DOCUMENT_HOVER}))
    assert code(wire.answer("a")) == REQUEST
    wire.raw(framed({"jsonrpc": "2.0", "id": "b", "method": 5}))
    assert code(wire.answer("b")) == REQUEST
    before = len(wire.unasked)
    junk: list[object] = [
        [], [1], "x", 5, None, True, {"jsonrpc": "2.0", "id": None, "method": "x"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "x"}, {"jsonrpc": "2.0", "id": [1], "method": "x"},
        {"jsonrpc": "2.0", "id": True, "method": "x"},
    ]  # fmt: skip
    for message in junk:
        wire.raw(framed(message))
    for body in (b"{", b"\xff", b"[" * 50_000):
        wire.raw(framed(body))
    # Neither a notification nor an answer is answered, whatever is wrong with it.
    for message in (
        {"jsonrpc": "2.0", "method": "x"}, {"jsonrpc": "2.0", "method": 5}, {"jsonrpc": "2.0"}, {},
        {"jsonrpc": "2.0", "method": t.TEXT_DOCUMENT_DID_OPEN, "params": {"textDocument": 5}},
        {"jsonrpc": "2.0", "method": t.TEXT_DOCUMENT_HOVER, "params": {}}, {"jsonrpc": "2.0", "id": 5, "result": None},
        {"jsonrpc": "2.0", "method": "$/cancelRequest"}, {"jsonrpc": "2.0", "id": "x", "error": 5},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 12345}},
    ):  # fmt: skip
        wire.raw(framed(message))
    wire.ask(t.WORKSPACE_EXECUTE_COMMAND, {"command": "tapecheck.explainRule", "arguments": ["TAPE101"]})
    codes = [answer["error"]["code"] for answer in wire.unasked[before:]]
    assert codes == [REQUEST] * len(junk) + [PARSE] * 3
    assert wire.end() == 0


def test_a_member_called_jsonrpc_is_a_member(wire: Wire, tmp_path: Path) -> None:
    wire.start(initializationOptions={"settings": {}, "other": {"jsonrpc": "2.0", "id": 5}})
    assert wire.end() == 0


def test_answers_of_the_wrong_shape_leave_nobody_waiting(wire: Wire, tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    for settings in ("x", 5, [1], {"select": 5}, {"run": {"timeout": 1e400, "maxIterations": "x"}}):
        wire.settings = settings
        if not wire.answers:
            wire.start()
            wire.open(uri, TWICE)
        wire.notify(t.WORKSPACE_DID_CHANGE_CONFIGURATION, {"settings": None})
        report = wire.ask(t.TEXT_DOCUMENT_DIAGNOSTIC, {"textDocument": {"uri": uri}})
        assert [item["code"] for item in report["items"]] == ["TAPE101"]
    assert wire.end() == 0


def test_no_change_takes_the_version(wire: Wire, tmp_path: Path) -> None:
    uri = (tmp_path / "train.py").as_uri()
    wire.start("neovim-0.7.2")
    wire.open(uri, TWICE, 1)
    wire.notify(t.TEXT_DOCUMENT_DID_CHANGE, {"textDocument": {"uri": uri, "version": 7}, "contentChanges": []})
    wire.ask(t.TEXT_DOCUMENT_HOVER, good(uri)[t.TEXT_DOCUMENT_HOVER])

    def told() -> list[dict[str, Any]]:
        return [one["params"] for one in wire.told if one["method"] == t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS]

    assert soon(lambda: any(one["version"] == 7 for one in told()))
    assert "TAPE101" in json.dumps(told()[-1])
    assert wire.end() == 0


@pytest.mark.parametrize("initial", [None, {"ignore": ["TAPE3"]}])
@pytest.mark.parametrize("empty", [None, {}, []])
def test_an_empty_configuration_resets_to_what_was_at_first(
    wire: Wire, tmp_path: Path, empty: object, initial: dict[str, object] | None
) -> None:
    uri = (tmp_path / "train.py").as_uri()
    wire.settings = {"ignore": ["TAPE1"]}
    wire.start(initializationOptions={"settings": initial} if initial else None)
    wire.open(uri, TWICE)

    def codes() -> list[str]:
        report = wire.ask(t.TEXT_DOCUMENT_DIAGNOSTIC, {"textDocument": {"uri": uri}})
        return [item["code"] for item in report["items"]]

    assert soon(lambda: not codes())
    wire.settings = empty
    wire.notify(t.WORKSPACE_DID_CHANGE_CONFIGURATION, {"settings": None})
    assert soon(lambda: codes() == ["TAPE101"])
    assert wire.end() == 0
