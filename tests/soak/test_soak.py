"""Short forms of the soaks; `make soak` runs the long ones."""

from __future__ import annotations

from pathlib import Path

from tests.soak import mutation, protocol


def test_the_server_has_the_client_s_text_and_answers_every_request(tmp_path: Path) -> None:
    outcome = protocol.soak(tmp_path, 1_500, 3)
    assert (outcome.diverged, outcome.unanswered) == (0, 0), outcome
    assert outcome.pulls > 20 and set(outcome.refused) <= {-32600, -32601, -32602, -32800}, outcome


def test_no_mutated_program_breaks_the_analysis() -> None:
    failures, _ = mutation.fuzz(250, 2)
    assert not failures, failures[0]
