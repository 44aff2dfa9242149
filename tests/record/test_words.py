"""Sizes and lists of parameters are told in one form."""

from __future__ import annotations

import pytest

from tapecheck.record.words import names_text
from tapecheck.report.sizes import bytes_text


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (4096, "4.1 kB"), (999_940, "999.9 kB"),
        (999_950, "1.0 MB"), (3_100_000, "3.1 MB"), (2 << 30, "2.1 GB"), (3_000_000_000_000, "3000.0 GB"),
    ],
)  # fmt: skip
def test_bytes_as_people_say_them(size: int, said: str) -> None:
    assert bytes_text(size) == said


def test_a_long_list_of_parameters_is_shortened() -> None:
    assert names_text(["a.weight", "a.bias"]) == "`a.weight`, `a.bias`"
    assert names_text(list("abcdef")) == "`a`, `b`, `c`, `d` and 2 more"
    assert names_text(["a"], unnamed=2) == "`a` and 2 more"
    assert (names_text([], unnamed=1), names_text([], unnamed=3)) == ("1 parameter", "3 parameters")
