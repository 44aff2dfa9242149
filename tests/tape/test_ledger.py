"""The ledger against what PyTorch's engine does, on tapes written by hand."""

from __future__ import annotations

import pytest

from tapecheck.tape import Backward, InPlace, Leaf, Ledger, Node, Root, Saved, Site, Span

AT = Site(Span("train.py", 1, 1, 1, 2))


def leaf(number: int, storage: int) -> Leaf:
    return Leaf(number, f"w{number}", AT, storage)


def backward(number: int, *roots: int, **given: object) -> Backward:
    return Backward(number, AT, "backward", tuple(Root(root) for root in roots), **given)  # type: ignore[arg-type]


@pytest.fixture
def ledger() -> Ledger:
    """w1 -> exp (2, saves its result) -> sum (3), and exp -> sin (4, saves exp's result)."""
    result = Ledger()
    result.feed(leaf(1, 10))
    result.feed(Node(2, "exp", AT, (1,), (Saved(20, 0, "result"),), "yes"))
    result.feed(Node(3, "sum", AT, (2,)))
    result.feed(Node(4, "sin", AT, (2,), (Saved(20, 0, "self", 2),), "yes"))
    return result


def test_second_backward_fails_at_the_freed_node(ledger: Ledger) -> None:
    first = ledger.feed(backward(1, 3))
    assert first is not None and first.problem is None and set(first.executed) == {1, 2, 3}
    second = ledger.feed(backward(2, 3))
    assert second is not None and second.problem is not None
    assert (second.problem.kind, second.problem.certain) == ("freed", "yes")
    assert second.problem.node is not None and second.problem.node.id == 2
    assert second.problem.freed_by is not None and second.problem.freed_by.id == 1


def test_nodes_that_save_nothing_can_run_again(ledger: Ledger) -> None:
    ledger.feed(Node(5, "add", AT, (1,)))
    ledger.feed(backward(1, 5))
    again = ledger.feed(backward(2, 5))
    assert again is not None and again.problem is None


def test_retained_graph_is_run_again_and_noted(ledger: Ledger) -> None:
    ledger.feed(backward(1, 3, retain="yes"))
    again = ledger.feed(backward(2, 4))
    assert again is not None and again.problem is None
    assert again.retraversed == {2: [1]}


def test_of_the_many_calls_that_retained_a_graph_the_last_few_are_noted(ledger: Ledger) -> None:
    for number in range(1, 21):
        again = ledger.feed(backward(number, 3, retain="yes"))
    assert again is not None and again.retraversed == {2: list(range(12, 20))}
    told = {number for run in ledger.traversals.values() for by in run.retraversed.values() for number in by}
    assert told == set(range(1, 20)), "each is told by the call after it"


def test_more_of_one_call_may_become_known_later(ledger: Ledger) -> None:
    ledger.feed(backward(1, 2, retain="yes", succeeded=True))
    ledger.feed(backward(2, 3))
    more = ledger.feed(backward(1, 4, retain="yes", succeeded=True))
    assert more is ledger.traversals[1] and set(more.executed) == {1, 2, 4}
    assert more.retraversed == {}, "no call walks again what it walked itself"
    assert [root.node for root in more.backward.roots] == [2, 4]
    third = ledger.feed(backward(3, 4))
    assert third is not None and third.problem is not None and third.problem.node is not None
    assert third.problem.node.id == 2 and third.retraversed == {4: [1]}


def test_inputs_limit_what_runs_and_what_is_freed(ledger: Ledger) -> None:
    ledger.feed(leaf(5, 50))
    ledger.feed(Node(6, "tanh", AT, (5,), (Saved(60, 0, "result"),), "yes"))
    ledger.feed(Node(7, "mul", AT, (4, 6), (Saved(40, 0, "self", 4), Saved(60, 0, "other", 6)), "yes"))
    run = ledger.feed(backward(1, 7, inputs=(5,)))
    assert run is not None and set(run.executed) == {7, 6, 5}
    assert ledger.is_freed(4) == "no" and ledger.is_freed(6) == "yes"


def test_in_place_change_makes_the_saved_tensor_stale(ledger: Ledger) -> None:
    ledger.feed(InPlace(AT, 20, "add_"))
    run = ledger.feed(backward(1, 4))
    assert run is not None and run.problem is not None
    assert (run.problem.kind, run.problem.certain) == ("stale", "yes")
    assert run.problem.node is not None and run.problem.node.id == 4, "the newest node is checked first"


def test_writes_through_data_move_no_version(ledger: Ledger) -> None:
    ledger.feed(InPlace(AT, 20, "data.add_", bumps="no"))
    run = ledger.feed(backward(1, 4))
    assert run is not None and run.problem is None


def test_what_ran_before_a_failure_stays_freed(ledger: Ledger) -> None:
    ledger.feed(Node(5, "cos", AT, (4,), (Saved(41, 0, "self", 4),), "yes"))
    ledger.feed(InPlace(AT, 20, "add_"))
    ledger.feed(backward(1, 5))
    assert ledger.is_freed(5) == "yes" and ledger.is_freed(4) == "no"


def test_a_root_without_graph(ledger: Ledger) -> None:
    run = ledger.feed(Backward(1, AT, "backward", (Root(None, "no"),)))
    assert run is not None and run.problem is not None and run.problem.kind == "no-graph"


def test_an_unused_input_of_grad(ledger: Ledger) -> None:
    ledger.feed(leaf(5, 50))
    event = Backward(1, AT, "grad", (Root(3),), inputs=(5,), accumulates=False)
    run = ledger.feed(event)
    assert run is not None and run.problem is not None and run.problem.kind == "unused"
    tolerant = Backward(2, AT, "grad", (Root(3),), inputs=(5,), accumulates=False, allow_unused=True)
    run = ledger.feed(tolerant)
    assert run is not None and run.problem is None


def test_an_unsure_edge_makes_an_unsure_problem(ledger: Ledger) -> None:
    ledger.feed(Node(5, "library()", AT, (3,), keeps="may", linked="may"))
    ledger.feed(backward(1, 3))
    run = ledger.feed(backward(2, 5))
    assert run is not None and run.problem is not None
    assert (run.problem.kind, run.problem.certain) == ("freed", "may")


def test_a_graph_of_many_nodes_needs_no_recursion() -> None:
    ledger = Ledger()
    ledger.feed(leaf(1, 10))
    for number in range(2, 20_000):
        ledger.feed(Node(number, "tanh", AT, (number - 1,), (Saved(number, 0, "result"),), "yes"))
    run = ledger.feed(backward(1, 19_999))
    assert run is not None and len(run.executed) == 19_999
