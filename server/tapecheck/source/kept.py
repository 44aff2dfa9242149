"""What was worked out from files, kept for as long as they stay as they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class KeptByPath(Generic[Found]):
    """Results by path, shared between analyses and threads; those used last are kept.

    Args:
        most: the greatest sum of their weights.
        weight: what a result weighs.
    """

    def __init__(self, most: int, weight: Callable[[Found], int] = lambda found: 1) -> None:
        self._most = most
        self._weight = weight
        self._sum = 0
        self._kept: OrderedDict[str, tuple[Hashable, Found]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, path: str, stamp: Hashable) -> Found | None:
        """Return what is kept of a path, where it has that stamp still."""
        with self._lock:
            known = self._kept.get(path)
            if known is None or known[0] != stamp:
                return None
            self._kept.move_to_end(path)
            return known[1]

    def put(self, path: str, stamp: Hashable, found: Found) -> Found:
        """Keep a result; those used longest ago give way."""
        with self._lock:
            replaced = self._kept.pop(path, None)
            self._kept[path] = (stamp, found)
            self._sum += self._weight(found) - (0 if replaced is None else self._weight(replaced[1]))
            while self._sum > self._most and len(self._kept) > 1:
                _, (_, forgotten) = self._kept.popitem(last=False)
                self._sum -= self._weight(forgotten)
        return found
