"""Models that are wrapped for several processes."""

from __future__ import annotations


class Wrapping:
    """What was noted of models in DistributedDataParallel and under FSDP2."""

    def __init__(self) -> None:
        self.alone = False
        """Whether the program has said that its group has one process."""
        self.averaged: dict[int, int] = {}
        """The leaves of models in DistributedDataParallel, by their storages."""
        self.unwatched: dict[int, int] = {}
        """Those that became trainable after the wrapping."""
        self.sharded: set[int] = set()
        """The storages of parameters that FSDP2 gathers anew for each walk: a step changes only shards."""
        self.of_shards: dict[int, int | None] = {}
        """The storages of what was computed of parameters in shards alone, each with one of these."""
        self.gathering = 0
        """How many forwards are running that gather parameters."""
        self.wrappers = 0
        """How many models were wrapped by DistributedDataParallel."""
