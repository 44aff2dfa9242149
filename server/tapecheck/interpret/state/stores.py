"""How often the program has stored something: what was worked out from an object holds until the next store."""

from __future__ import annotations

import itertools

_PATHS = itertools.count()


class StoreCounts:
    """Counts of stores, for results that are valid as long as a count stays."""

    def __init__(self) -> None:
        # Objects of imported modules outlive a path, so no two paths count the same numbers.
        self.kept = next(_PATHS) << 32
        """Counts what may have put a graph into an object: stores to attributes, tensors changed in place."""
        self.attributes = 0
        """How often something was stored to an attribute, or to a name of another namespace."""
        self.classes = 0
        """How often something was stored to a class."""
