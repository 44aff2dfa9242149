"""What an analysis leaves behind goes soon after it; everything is looked through only while nobody types."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from tapecheck.lsp import garbage


class Ring:
    """Refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_an_analysis_leaves_behind_is_freed_after_it(thresholds: None) -> None:
    async def analyse() -> weakref.ref[Ring]:
        left = weakref.ref(Ring())
        garbage.Garbage().made()
        assert left() is not None
        await asyncio.sleep(garbage.SOON * 20)
        return left

    garbage.hold()
    assert asyncio.run(analyse())() is None


@pytest.mark.parametrize("typing", [False, True])
def test_a_full_collection_waits_until_nobody_types(
    typing: bool, monkeypatch: pytest.MonkeyPatch, thresholds: None
) -> None:
    monkeypatch.setattr(garbage, "IDLE", 0.05)

    async def analyse() -> weakref.ref[Ring]:
        ring = Ring()
        left = weakref.ref(ring)
        gc.collect()
        del ring  # old by now
        held = garbage.Garbage()
        for _ in range(garbage.FULL_AFTER):
            held.made()
        await asyncio.sleep(0.02)
        assert left() is not None
        if typing:
            held.put_off()
        await asyncio.sleep(0.15)
        return left

    garbage.hold()
    assert (asyncio.run(analyse())() is not None) is typing


def test_behind_files_that_are_not_open_garbage_goes_at_once(thresholds: None) -> None:
    garbage.hold()
    ring = Ring()
    old = weakref.ref(ring)
    gc.collect()
    del ring
    held = garbage.Garbage()
    young = weakref.ref(Ring())
    held.closed()
    assert young() is None
    assert old() is not None
    for _ in range(garbage.FULL_AFTER):
        held.closed()
    assert old() is None
