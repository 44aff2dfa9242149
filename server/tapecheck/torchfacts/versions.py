"""Which torch the facts are of: one table in full, those of other versions as what differs, and the nearest one.

``facts.json`` is the table of the version that was measured last. ``versions/2.10.0.json`` has the rows of torch 2.10.0
that are different, null for those that it lacks; ``python -m tools.torchlab.versions`` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Traversable

SECTIONS = ("general", "ops", "modules", "optimizers")

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_FILE = re.compile(r"\d+\.\d+\.\d+\.json")
_selected: ContextVar[str | None] = ContextVar("torch", default=None)


def release(version: str) -> tuple[int, int, int] | None:
    """Return a version as numbers, `2.13.0+cpu` and `2.13` as (2, 13, 0); None where it is none."""
    found = _VERSION.match(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def nearest(version: str | None, measured: Iterable[str]) -> str:
    """Return the measured version that is nearest to another one.

    By minor version, then by patch; of two that are as near the older one, since a torch between them may lack what
    only the newer one does. Of another major version it is the one next to it. Without a version, or with one that is
    none, it is the newest.

    Raises:
        ValueError: nothing was measured.
    """
    known = {one: parts for one in measured if (parts := release(one)) is not None}
    if not known:
        raise ValueError("no version was measured")
    wanted = release(version) if version is not None else None
    if wanted is None:
        return max(known, key=lambda one: known[one])

    major = min((parts[0] for parts in known.values()), key=lambda one: (abs(one - wanted[0]), one))
    same = [one for one, parts in known.items() if parts[0] == major]
    if major != wanted[0]:
        return (max if major < wanted[0] else min)(same, key=lambda one: known[one])
    return min(same, key=lambda one: (abs(known[one][1] - wanted[1]), abs(known[one][2] - wanted[2]), known[one]))


@contextmanager
def using(version: str | None) -> Iterator[None]:
    """Have `load()` return the facts that are nearest to a version within the block, the newest ones for None."""
    token = _selected.set(version)
    try:
        yield
    finally:
        _selected.reset(token)


def selected() -> str | None:
    """Return the version that `using` names here."""
    return _selected.get()


@lru_cache(maxsize=1)
def several() -> bool:
    """Return whether there are facts of more than one version; no table is read for that."""
    return bool(_others())


@lru_cache(maxsize=1)
def measured() -> tuple[str, ...]:
    """Return the versions that there are facts of, the oldest first.

    Raises:
        FileNotFoundError: ``facts.json`` is missing from the installation.
    """
    found = {str(_base()["torch"]), *(name.removesuffix(".json") for name in _others())}
    return tuple(sorted(found, key=lambda one: release(one) or (0, 0, 0)))


def table(version: str) -> Mapping[str, Any]:
    """Return the whole table of a measured version."""
    base = _base()
    if version == base["torch"]:
        return base
    return applied(base, json.loads(_folder().joinpath(f"{version}.json").read_bytes()))


def applied(base: Mapping[str, Any], difference: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table that differs from another one in these rows."""
    found: dict[str, Any] = {"torch": difference["torch"]}
    for section in SECTIONS:
        rows = {**base[section], **difference.get(section, {})}
        found[section] = {name: row for name, row in rows.items() if row is not None}
    return found


@lru_cache(maxsize=1)
def _base() -> Mapping[str, object]:
    found: Mapping[str, Any] = json.loads(resources.files(__package__).joinpath("facts.json").read_bytes())
    return found


def _folder() -> Traversable:
    return resources.files(__package__).joinpath("versions")


def _others() -> list[str]:
    folder = _folder()
    return [one.name for one in folder.iterdir() if _FILE.fullmatch(one.name)] if folder.is_dir() else []
