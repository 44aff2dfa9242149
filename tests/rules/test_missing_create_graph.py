"""TAPE401 on tapes written by hand."""

from __future__ import annotations

from typing import Any

from tapecheck.tape import Root

CODE = "TAPE401"


def penalty(build: Any, *, how: str | None = None, terms: bool = True) -> Any:
    """A gradient without graph that is added to a loss, detached on the way where `how` says so."""
    x, w = build.leaf(1, "x", parameter=False), build.leaf(1)
    score = build.node(2, x, w, saves=[x, w], name="score")
    build.grad(3, score, x)
    gradient = build.cut(3, "grad", score, name="gradient")
    constant = build.cut(4, how, sources=[gradient]) if how else gradient
    fit = build.node(5, w, saves=[0], name="fit")
    loss = build.node(6, fit, op="AddBackward0", name="loss", cuts=[constant])
    build.backward(8, Root(loss, name="loss", constant_terms=(gradient,) if terms else ()))
    return build


def test_a_constant_penalty(build: Any, found: Any) -> None:
    (finding,) = found(penalty(build))
    assert (finding.code, finding.severity, finding.span.line) == (CODE, "warning", 6)
    assert finding.message == "gradient penalty in `loss` has no effect (missing `create_graph=True`)"
    assert "`create_graph=True`" in finding.help
    assert [label.span.line for label in finding.labels if label.role == "cut"] == [3]
    assert finding.facts["kind"] == "silent"


def test_a_gradient_that_scales_is_meant_as_a_number(build: Any, found: Any) -> None:
    assert found(penalty(build, terms=False)) == []


def test_an_explicit_detach_says_that_a_constant_is_meant(build: Any, found: Any) -> None:
    assert found(penalty(build, how="detach")) == []


def test_a_second_derivative_raises(build: Any, found: Any) -> None:
    x, w = build.leaf(1, "x", parameter=False), build.leaf(1)
    build.grad(3, build.node(2, x, w, saves=[x, w], name="u"), x)
    cut = build.cut(3, "grad", 3)
    build.grad(4, Root(None, "no", "du", (cut,)), x)
    (finding,) = found(build)
    assert (finding.severity, finding.span.line, finding.certain) == ("error", 4, True)
    assert finding.message == "`du` cannot be differentiated: missing `create_graph=True`"
    assert finding.facts["kind"] == "raises"


def test_an_input_that_only_the_cut_gradient_reaches(build: Any, found: Any) -> None:
    w, weights = build.leaf(1), build.leaf(1, "weights", parameter=False)
    inner = build.node(2, w, weights, saves=[w, weights])
    build.grad(3, inner, w)
    cut = build.cut(3, "grad", inner)
    outer = build.node(4, w, saves=[0], cuts=[cut], name="outer")
    build.grad(5, outer, weights)
    (finding,) = found(build)
    assert (finding.code, finding.severity, finding.span.line) == (CODE, "error", 5)
    assert finding.message == "`weights` is unreachable from `outer`: missing `create_graph=True`"


def test_an_unused_input_alone_is_no_finding(build: Any, found: Any) -> None:
    w, other = build.leaf(1), build.leaf(1, "other")
    build.grad(3, build.node(2, w, saves=[0]), other)
    assert found(build) == []
