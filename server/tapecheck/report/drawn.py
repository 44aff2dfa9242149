"""What a page or a picture shows of a recorded or a dry run, as it stands in the page's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

Row = Mapping[str, object]
"""A part of the page that only its script reads."""

Place = list[int]
"""The number of a file, a line and a column with those of the end."""


class Group(TypedDict):
    """The nodes that one line built; `state` is what happens to what they saved, `calls` are the call sites above."""

    at: Place
    calls: list[Place]
    nodes: int
    saved: int
    state: str
    ops: list[tuple[str, int]]
    leaves: list[str]


class Shape(TypedDict):
    """A graph by source line; an edge has two groups and how many nodes of the second use those of the first."""

    groups: list[Group]
    edges: list[tuple[int, int, int]]


class _Call(TypedDict):
    number: int
    at: Place
    call: str
    when: list[tuple[int, int]]
    nodes: int
    freed: int
    kept: int
    reused: int
    create: bool
    raised: str | None
    shape: int | None


class Call(_Call, total=False):
    """A backward call; `when` has the line of each loop around it and the iteration."""

    thread: str
    device: float


class _Alive(TypedDict):
    call: int
    loop: int
    index: int
    nodes: int


class Alive(_Alive, total=False):
    """How many nodes were alive after an iteration, and what they and the device held."""

    bytes: int
    device: int


class _Held(TypedDict):
    moment: str
    call: int
    at: Place
    when: list[tuple[int, int]]
    lines: list[tuple[Place, int]]
    saved_lines: list[tuple[Place, int]]
    peak: bool


class Held(_Held, total=False):
    """Bytes by kind at a moment, and the lines whose graphs hold most of them."""

    parameters: int
    optimizer: int
    gradients: int
    saved: int
    graph: int
    other: int


class Rank(TypedDict):
    """The timeline of one process."""

    rank: int
    calls: list[Call]
    total: int
    alive: list[Alive]
    held: list[Held]
    untrained: list[Row]


class File(TypedDict):
    """A file with its lines, and the first lines and the numbers of a notebook's cells."""

    name: str
    path: str
    lines: list[str]
    cells: list[tuple[int, int]]


class Data(TypedDict):
    """All that a page shows; places name a file by its number in `files`, calls a graph by that in `shapes`."""

    title: str
    ending: str
    about: Row
    cut: bool
    findings: list[Row]
    problems: list[str]
    ranks: list[Rank]
    shapes: list[Shape]
    files: list[File]
