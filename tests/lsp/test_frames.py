"""Messages are found again after whatever a header says."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapecheck.lsp.frames import Broken, Frames


def framed(message: object) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def all_of(data: bytes, *, pieces: int = 1, seed: int = 0) -> list[object]:
    frames, rng = Frames(), random.Random(seed)
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(pieces - 1))
    parts = [data[first:last] for first, last in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return [message for part in parts for message in frames.feed(part)]


A, B = {"id": 1, "text": "é\r\nContent-Length: 3\r\n\r\n"}, {"id": 2}


@pytest.mark.parametrize("pieces", [1, 2, 7, 200])
def test_messages_come_however_they_are_cut(pieces: int) -> None:
    for seed in range(20):
        assert all_of(framed(A) + framed(B) + framed(A), pieces=pieces, seed=seed) == [A, B, A]


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: 9\r\n\r\n", b"CONTENT-LENGTH:9\r\n\r\n", b"Content-Length: 9\n\n",
        b"Content-Length : 9 \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 9\r\n\r\n",
        b"Content-Length: 9\r\nContent-Type: x\r\n\r\n", b"Content-Length: 4\r\nContent-Length: 9\r\n\r\n",
        b"Content-Length: 9\r\n", b"nonsense\r\n\r\nContent-Length: 9\r\n\r\n", b"\r\n\r\nContent-Length: 9\r\n\r\n",
        b"Content-Length: 999999999999\r\n\r\nContent-Length: 9\r\n\r\n",
        b"Content-Length: -5\r\n\r\nContent-Length: 9\r\n\r\n",
        b"Content-Length: 5x\r\n\r\nContent-Length: 9\r\n\r\n", b"Content-Length: 4\r\n\r\n",
        b"Content-Length: 12\r\n\r\n",
        b"Content-Length: 500\r\n\r\n", b"Content-Length: 0\r\n\r\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("pieces", [1, 3])
def test_no_header_leaves_the_next_message_unheard(header: bytes, pieces: int) -> None:
    assert json.dumps(B).encode() == b'{"id": 2}'
    data = framed(A) + header + b'{"id": 2}' + framed(A) + framed(B)
    for seed in range(10):
        heard = all_of(data, pieces=pieces, seed=seed)
        assert heard[0] == A and heard[-2:] == [A, B], heard


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"", b"[" * 100_000, b"{'a': 1}", b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_is_said_and_the_rest_goes_on(body: bytes) -> None:
    heard = all_of(b"Content-Length: %d\r\n\r\n%b" % (len(body), body) + framed(B))
    assert isinstance(heard[0], Broken) and heard[-1] == B


def test_a_message_without_a_header_is_passed_over() -> None:
    assert all_of(b'{"id": 1}' + framed(A) + b'{"id": 1}\n' + framed(B)) == [A, B]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 5))
def test_no_bytes_break_it(data: bytes, pieces: int) -> None:
    heard = all_of(data + b"\r\n" + framed(A) + framed(B), pieces=pieces)
    assert heard[-1:] == [B]
