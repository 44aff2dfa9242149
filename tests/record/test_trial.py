"""What trying a fix says, and what it leaves out because it is not known."""

from __future__ import annotations

import dataclasses

from tapecheck.record.trial import Side, Trial

SIDE = Side("finished", "", (), "abc", 0, 1.0, 8, {}, 100)


def changed(**fields: object) -> Side:
    return dataclasses.replace(SIDE, **fields)  # type: ignore[arg-type]


def test_parameters_that_differ_from_run_to_run_are_not_compared() -> None:
    other = changed(learned="def")
    assert "the parameters are not the same" in Trial(SIDE, other, SIDE).text()
    text = Trial(SIDE, other, changed(learned="ghi")).text()
    assert "differ from run to run" in text and "are not the same" not in text
    assert "the parameters are identical" in Trial(SIDE, SIDE, other).text()


def test_parameters_are_compared_where_the_limit_ended_both_runs_alike() -> None:
    stopped, other = changed(ended="stopped"), changed(ended="stopped", learned="def")
    assert "the parameters are identical after 8 iterations, the limit of both runs" in Trial(stopped, stopped).text()
    assert "the parameters are not the same after 8 iterations" in Trial(stopped, other, stopped).text()
    for before, after in (
        (SIDE, stopped),
        (stopped, changed(ended="stopped", iterations=7)),
        (changed(ended="raised"), SIDE),
    ):
        assert "the runs did not end at the same point" in Trial(before, after).text()


def test_two_runs_that_both_fail_are_not_said_to_end_at_different_points() -> None:
    for ended in ("raised", "timeout"):
        trial = Trial(changed(ended=ended), changed(ended=ended))
        assert "cannot be compared, since neither run came to its end" in trial.text()
        assert ("parameters learned", "–", "not compared: neither run came to its end") in trial.table()


def test_times_are_told_where_they_are_stable_and_another() -> None:
    slow = changed(seconds=1.5)
    assert "1.02 s an iteration before, 1.50 s after" in Trial(SIDE, slow, changed(seconds=1.04)).text()
    assert "an iteration" not in Trial(SIDE, slow, changed(seconds=1.3)).text()
    assert "an iteration" not in Trial(SIDE, changed(seconds=1.05), SIDE).text()
    assert "an iteration" not in Trial(SIDE, slow).text()
    assert "an iteration" not in Trial(SIDE, changed(seconds=None), SIDE).text()


def test_a_fix_of_what_did_not_happen_is_not_said_to_mend_it() -> None:
    assert "did not show this (refuted)" in Trial(SIDE, SIDE, SIDE, "refuted").text()
    assert "did not show" not in Trial(SIDE, SIDE, SIDE, "confirmed").text()


def test_memory_is_what_torch_allocated_or_graphs_had_saved() -> None:
    device = Trial(changed(memory=2_000_000), changed(memory=1_000_000)).text()
    assert "torch allocated up to 2.0 MB before, 1.0 MB after" in device
    assert "had saved up to 100 bytes before, 0 bytes after" in Trial(SIDE, changed(saved=0)).text()
    assert "saved" not in Trial(SIDE, SIDE).text()


def test_a_finding_of_the_dry_run_that_the_run_shows_is_told() -> None:
    said = "shows this, and the dry run of the mended one no longer finds it"
    assert said in Trial(SIDE, SIDE, SIDE, "confirmed").text()
    assert said not in Trial(SIDE, SIDE, SIDE).text() + Trial(SIDE, SIDE, SIDE, "refuted").text()
    # The rule that is broken no longer says it already.
    assert said not in Trial(changed(rules=("graph-kept",)), SIDE, SIDE, "confirmed").text()
