"""Edits: applied in any order they are given, as small as they can be, with lines followed through them."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tapecheck.fixes.edit import Change, LineMap, TextIndex, apply, settle


def _settled(text: str, *changes: Change) -> tuple[Change, ...]:
    settled = settle(text, changes)
    assert settled is not None
    return settled


def test_a_replacement_shrinks_to_the_inserted_part() -> None:
    text = "h = cell(x, h)\n"
    change = Change(4, 14, "cell(x, h.detach())")
    assert _settled(text, change) == (Change(13, 13, ".detach()"),)


def test_insertions_at_one_place_keep_their_order() -> None:
    text = "a\nb\n"
    settled = _settled(text, Change(2, 2, "one\n"), Change(2, 2, "two\n"))
    assert apply(text, settled) == "a\none\ntwo\nb\n"


def test_overlapping_changes_are_refused() -> None:
    assert settle("abcdef", [Change(0, 4, "x"), Change(2, 6, "y")]) is None


def test_a_change_that_changes_nothing_vanishes() -> None:
    assert settle("abc", [Change(0, 3, "abc")]) == ()


def test_a_windows_line_break_is_never_cut_in_half() -> None:
    text = "a\r\nb\r\n"
    settled = _settled(text, Change(0, 6, "a\r\nx\r\nb\r\n"))
    for change in settled:
        assert not text[: change.start].endswith("\r") or not text[change.start :].startswith("\n")
        assert not text[: change.end].endswith("\r") or not text[change.end :].startswith("\n")
    assert apply(text, settled) == "a\r\nx\r\nb\r\n"


def test_columns_count_characters() -> None:
    index = TextIndex("é = '😀'; x = 1\n")
    assert index.place(index.text.index("x")) == (1, 10)
    assert index.offset(1, 10) == index.text.index("x")


def test_lines_behind_inserted_and_deleted_lines_move() -> None:
    text = "a\nb\nc\nd\n"
    inserted = LineMap(text, _settled(text, Change(2, 2, "new\n")))
    assert [list(inserted.lines(line)) for line in (1, 2, 3)] == [[1], [3], [4]]
    assert inserted.added(2) and not inserted.added(3)
    deleted = LineMap(text, _settled(text, Change(2, 4, "")))
    assert list(deleted.lines(2)) == []
    assert list(deleted.lines(4)) == [3]


def test_a_line_that_grew_may_be_any_of_its_new_lines() -> None:
    text = "a\nb\nc\n"
    lines = LineMap(text, _settled(text, Change(2, 3, "if x:\n    b")))
    assert list(lines.lines(2)) == [2, 3]
    assert list(lines.lines(3)) == [4]


_TEXTS = st.lists(st.sampled_from(["a", "bb", "", "  c = d", "é"]), max_size=8).map("\n".join)


@given(_TEXTS, st.data())
@settings(max_examples=200, deadline=None)
def test_settled_changes_do_what_the_given_ones_do(text: str, data: st.DataObject) -> None:
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=4, max_size=4)))
    contents = data.draw(st.lists(st.sampled_from(["", "x", "\n", "y\nz", "a"]), min_size=2, max_size=2))
    changes = [Change(places[0], places[1], contents[0]), Change(places[2], places[3], contents[1])]
    if places[1] == places[2]:
        return
    expected = text[: places[0]] + contents[0] + text[places[1] : places[2]] + contents[1] + text[places[3] :]
    assert apply(text, _settled(text, *changes)) == expected


@given(_TEXTS, st.data())
@settings(max_examples=200, deadline=None)
def test_untouched_lines_are_found_again(text: str, data: st.DataObject) -> None:
    low, high = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=2)))
    settled = _settled(text, Change(low, high, data.draw(st.sampled_from(["", "x", "\n", "y\nz\n", "\n\n"]))))
    after = re.split("\n", apply(text, settled))
    before = re.split("\n", text)
    lines = LineMap(text, settled)
    for number, line in enumerate(before, 1):
        found = lines.lines(number)
        touched = any(
            TextIndex(text).place(change.start)[0] <= number <= TextIndex(text).place(change.end)[0]
            for change in settled
        )
        if not touched:
            assert len(found) == 1
            assert after[found[0] - 1] == line
