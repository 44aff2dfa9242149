"""A second recorder, which takes no short cut, has nothing against the verdicts on a few generated programs."""

from __future__ import annotations

from collections import Counter

from tests.record.brute import hold


def test_verdicts_are_those_of_the_second_recorder() -> None:
    tally: Counter[str] = Counter()
    assert [str(one) for one in hold([510022, 510214, 510288, 700015, 700825, 700956, 9640841, *range(8)], tally)] == []
    assert tally["programs"] == 15 and sum(count for name, count in tally.items() if "confirmed" in name) > 10
