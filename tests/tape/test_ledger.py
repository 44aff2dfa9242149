"""The ledger against what PyTorch's engine does, on tapes written by hand."""

from __future__ import annotations

import heapq
import random

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


def by_the_engine(graph: dict[int, tuple[int, ...]], roots: list[int], wanted: list[int] | None) -> list[int]:
    """Return what runs in the order of `engine.cpp`: of what is ready the newest, leaves before anything else."""

    def leads(node: int) -> bool:
        return wanted is None or node in wanted or any(leads(source) for source in graph.get(node, ()))

    reached: set[int] = set()
    stack = list(roots)
    while stack:
        if (node := stack.pop()) not in reached:
            reached.add(node)
            stack += graph.get(node, ())
    needed = {node for node in reached if leads(node)}
    waits = {node: sum(node in graph.get(other, ()) for other in needed) for node in needed}
    ready = [-root for root in set(roots) if root in needed and not waits[root]]
    heapq.heapify(ready)
    ran: list[int] = []
    while ready:
        ran.append(-heapq.heappop(ready))
        for source in graph.get(ran[-1], ()):
            if source in needed:
                waits[source] -= 1
                if not waits[source] and source in graph:
                    heapq.heappush(ready, -source)
                elif not waits[source]:
                    ran.append(source)
    return ran


@pytest.mark.parametrize("seed", range(60))
def test_nodes_run_in_the_order_of_the_engine(seed: int) -> None:
    chance = random.Random(seed)
    ledger, graph, leaves = Ledger(), dict[int, tuple[int, ...]](), list[int]()
    roots: list[int] = []
    for call in range(8):
        # Between two calls the graph grows, or stays as it is and is walked from the same roots.
        for _ in range(chance.choice([0, 0, 1, 6])):
            number = len(graph) + len(leaves) + 1
            if chance.random() < 0.4 or number < 3:
                leaves.append(number)
                ledger.feed(leaf(number, number))
            else:
                graph[number] = tuple(chance.sample(range(1, number), min(number - 1, chance.randint(1, 3))))
                ledger.feed(Node(number, "mul", AT, graph[number], (Saved(number, 0, "self"),), "yes"))
        every = [*leaves, *graph]
        if not every:
            continue
        if not roots or chance.random() < 0.5:
            roots = chance.sample(every, min(len(every), chance.randint(1, 3)))
        wanted = chance.choice([None, chance.sample(every, min(len(every), 2))])
        inputs = None if wanted is None else tuple(wanted)
        ran = ledger.feed(backward(call + 1, *roots, inputs=inputs, retain="yes", allow_unused=True))
        assert ran is not None
        expected = by_the_engine(graph, roots, wanted)
        assert [number for number in ran.executed if number in graph] == [one for one in expected if one in graph]
        assert set(ran.executed) == set(expected)
        for number in set(ran.executed) - set(graph) - set(roots):
            at = list(ran.executed)
            users = [at.index(node) for node in ran.executed if number in graph.get(node, ())]
            assert max(users) < at.index(number)
