"""TAPE202 on tapes written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

CODE = "TAPE202"


def chain(build: Any, *, count: int = 3, saves: bool = True, **options: Any) -> Any:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(count):
            begin()
            state = build.node(3, w, state, saves=[0] if saves else [], name="state")
            build.hold(3, "state", state)
            build.backward(5, build.node(4, state, op="SumBackward0", name="loss"), **options)
    return build


def test_each_backward_walks_all_earlier_iterations(build: Any, found: Any, remarks: Any) -> None:
    (finding,) = found(chain(build, retain="yes"))
    assert (finding.code, finding.severity, finding.span.line, finding.certain) == (CODE, "warning", 5, True)
    assert finding.message == "each backward re-walks all previous iterations"
    assert "walks at least 2, 3, 4, … nodes" in finding.notes[0]
    assert remarks(finding, "carried") == {3: "`state` carries its graph into the next iteration"}
    assert "`state = state.detach()`" in finding.help
    assert finding.facts.argument.line == 5


def test_what_a_container_carries_is_detached_there_and_not_the_container(build: Any, found: Any, remarks: Any) -> None:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            state = build.node(3, w, state, saves=[0])
            build.hold(3, "self.states", state, inside=True)
            build.backward(5, build.node(4, state, op="SumBackward0", name="loss"), retain="yes")
    (finding,) = found(build)
    assert remarks(finding, "carried") == {3: "`self.states` carries its graph into the next iteration"}
    assert "`.detach()` each tensor in `self.states`" in finding.help


def test_a_state_of_several_tensors_is_detached_part_by_part(build: Any, found: Any) -> None:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            state = build.node(3, w, state, saves=[0])
            build.bind(3, "state", state)
            build.tape.events[-1] = replace(build.tape.events[-1], item=0)
            build.backward(5, build.node(4, state, op="SumBackward0", name="loss"), retain="yes")
    (finding,) = found(build)
    assert "`state = tuple(part.detach() for part in state)`" in finding.help


def test_create_graph_can_hide_it_too(build: Any, found: Any) -> None:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(3):
            begin()
            state = build.node(3, w, state, saves=[0], name="state")
            build.grad(5, build.node(4, state, op="SumBackward0", name="loss"), w, create="yes")
            build.tape.events[-1] = replace(build.tape.events[-1], retain="yes")
    (finding,) = found(build, code=CODE)
    assert finding.facts.argument is None


def test_two_iterations_do_not_show_growth(build: Any, found: Any) -> None:
    assert found(chain(build, count=2, retain="yes"), code=CODE) == []


def test_a_chain_that_saves_nothing_needs_no_retained_graph(build: Any, found: Any) -> None:
    assert found(chain(build, saves=False, retain="yes"), code=CODE) == []


def test_several_losses_on_one_forward_pass(build: Any, found: Any) -> None:
    w = build.leaf(1)
    features = build.node(2, w, saves=[0], name="features")
    with build.loop(3) as begin:
        for _ in range(4):
            index = begin()
            loss = build.node(4, features, op="SumBackward0", name="loss")
            build.backward(5, loss, retain="yes" if index < 4 else "no")
    assert found(build) == []


def test_a_window_that_is_cut(build: Any, found: Any) -> None:
    w = build.leaf(1)
    state = w
    with build.loop(2) as begin:
        for _ in range(6):
            if begin() % 2:
                state = w
            state = build.node(3, w, state, saves=[0], name="state")
            build.backward(5, build.node(4, state, op="SumBackward0"), retain="yes")
    assert found(build, code=CODE) == []


def test_a_sum_that_is_reset_says_so(build: Any, found: Any, remarks: Any) -> None:
    """Its terms are counted again and again in every window, but what a backward walks is bounded."""
    w = build.leaf(1)
    total = 0
    with build.loop(2) as begin:
        for _ in range(8):
            first = begin() % 4 == 1
            loss = build.node(3, w, saves=[0], name="loss")
            total = loss if first else build.node(4, total, loss, op="AddBackward0", name="total")
            build.hold(4, "total", total)
            build.backward(5, total, retain="yes")
    (finding,) = found(build, code=CODE)
    assert finding.message == "each backward re-walks the iterations since the last reset"
    assert "slower each time" not in finding.notes[0]
    assert "until the next reset" in remarks(finding, "built")[3]
