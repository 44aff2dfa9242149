"""The order in which ways through a program are tried."""

from __future__ import annotations

import itertools

import pytest

from tapecheck.interpret.explore.queue import Queue
from tapecheck.interpret.explore.wanted import Wanted
from tapecheck.interpret.explore.ways import Way
from tapecheck.interpret.state import Place, Policy


def _ways(lines: range) -> dict[Place, Way]:
    places = [("train.py", line, 0) for line in lines]
    return {place: Way(Policy({place: (False,)}), place) for place in places}


@pytest.mark.parametrize("count", [0, 1, 3, 12])
def test_loops_that_may_be_passed_by_take_no_place_of_two_conditions(count: int) -> None:
    """What is said never to come may take two conditions: however many lists of unknown length a program fills."""
    queue = Queue(Wanted(None, lacks=lambda tapes: iter(["never"])))
    queue.wanted.look([])
    conditions, loops = _ways(range(1, 7)), _ways(range(100, 100 + count))
    queue.note(conditions.values(), (), loops.values(), (), {})
    queue.take_up_deferred()
    tried = []
    while len(queue):
        way = queue.take(())
        assert way is not None
        tried.append(frozenset(way.policy.patterns))
    assert len(tried) == len(set(tried))
    assert set(map(frozenset, itertools.combinations(conditions, 2))) <= set(tried)
    assert not count or any(one & loops.keys() and one & conditions.keys() for one in tried) or count > 6
