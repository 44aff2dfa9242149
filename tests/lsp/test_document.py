"""The server's copy of a text, edit by edit, against a model that knows only the words of the protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types as t

from tapecheck.lsp.convert import Converter
from tapecheck.lsp.document import Document, Encoding, to_characters, to_units
from tapecheck.lsp.host import Host
from tapecheck.lsp.sync import did_change, did_open
from tapecheck.lsp.wiring import create_server
from tapecheck.source import from_text, split_lines

ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]
# Line ends of the protocol, characters that only Python breaks lines at, and one to four UTF-8 bytes.
ALPHABET = [
    "a",
    " ",
    "\n",
    "\r",
    "\r\n",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x85",
    "\u2028",
    "é",
    "漢",
    "🎉",
    "\U0010ffff",
]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=30).map("".join)
PLACES = st.tuples(st.integers(0, 12), st.integers(0, 12))
Edit = tuple[tuple[int, int], tuple[int, int], str, bool]
EDITS = st.lists(st.tuples(PLACES, PLACES, TEXTS, st.booleans()), max_size=6)
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
URI = "file:///train.py"


def model_lines(text: str) -> list[str]:
    """Lines with their ends, cut at \\n, \\r\\n and \\r, one character at a time."""
    lines = [""]
    index = 0
    while index < len(text):
        lines[-1] += text[index]
        if text[index] == "\r" and text[index + 1 : index + 2] == "\n":
            index += 1
            lines[-1] += "\n"
        if text[index] in "\r\n":
            lines.append("")
        index += 1
    return lines


def model_offset(text: str, line: int, units: int, encoding: str) -> int:
    """The offset of a position: beyond a line is its end, beyond the text is the end of the text."""
    lines = model_lines(text)
    if line >= len(lines):
        return len(text)
    codec, size = CODECS[encoding]
    offset = sum(map(len, lines[:line]))
    for character in lines[line].rstrip("\r\n"):
        units -= len(character.encode(codec)) // size
        if units < 0:
            return offset
        offset += 1
    return offset


@pytest.fixture(scope="module")
def server() -> Iterator[Host]:
    made = create_server()
    yield made
    made.shutdown()


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=TEXTS, edits=EDITS)
@settings(max_examples=300, deadline=None)
def test_the_text_after_any_edits_is_what_the_client_has(
    server: Host,
    encoding: Encoding,
    text: str,
    edits: list[Edit],
) -> None:
    # A client that pulls: nothing is sent by itself, so no event loop is needed.
    server.client = server.client.__class__(pull=True)
    server.converter = Converter(server.session, server.client, encoding)
    item = t.TextDocumentItem(uri=URI, language_id="python", version=0, text=text)
    did_open(server, t.DidOpenTextDocumentParams(item))
    for version, (start, end, content, whole) in enumerate(edits, 1):
        named = t.VersionedTextDocumentIdentifier(uri=URI, version=version)
        change: t.TextDocumentContentChangeEvent
        if whole and version % 3 == 0:
            change = t.TextDocumentContentChangeWholeDocument(text=content)
            text = content
        else:
            start, end = sorted([start, end])
            change = t.TextDocumentContentChangePartial(
                range=t.Range(t.Position(*start), t.Position(*end)), text=content
            )
            first, last = model_offset(text, *start, encoding), model_offset(text, *end, encoding)
            text = text[:first] + content + text[max(first, last) :]
        did_change(server, t.DidChangeTextDocumentParams(named, [change]))
        document = server.session.documents[URI]
        assert (document.text, document.version) == (text, version)


@given(text=TEXTS)
def test_lines_are_those_of_the_protocol_and_of_the_parser(text: str) -> None:
    lines = [line.rstrip("\r\n") for line in model_lines(text)]
    assert split_lines(text) == lines == from_text(text, "t.py").lines
    document = Document(URI, "t.py", text, 1)
    assert [document.line(number) for number in range(len(document.starts))] == lines


@given(line=TEXTS, encoding=st.sampled_from(ENCODINGS))
def test_units_and_characters_are_inverse(line: str, encoding: Encoding) -> None:
    for characters in range(len(line) + 1):
        assert to_characters(line, to_units(line, characters, encoding), encoding) == characters
    assert to_characters(line, 1000, encoding) == len(line)


def test_a_position_within_a_character_is_its_start() -> None:
    assert to_characters("🎉x", 1, "utf-16") == 0
    assert to_characters("🎉x", 3, "utf-8") == 0
    assert to_characters("🎉x", 4, "utf-8") == 1


def test_a_lone_surrogate_is_no_reason_to_fail() -> None:
    document = Document(URI, "t.py", "x = '\ud800'\n", 1)
    assert to_units("\ud800x", 2, "utf-8") == 4
    assert document.digest != Document(URI, "t.py", "x = ''\n", 1).digest
