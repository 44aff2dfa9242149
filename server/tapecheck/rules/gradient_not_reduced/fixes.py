"""Gradients that are not averaged: call the wrapper, or run one backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.rules.backward_twice.fixes import sum_losses
from tapecheck.rules.checkpoint_without_gradient.fixes import other_kind
from tapecheck.rules.gradient_not_reduced.facts import GradientNotReducedFacts
from tapecheck.source.nodes import of_kind


def call_wrapper(context: Context) -> Iterator[Candidate]:
    """Rewrite `model.module(x)` to `model(x)` in the function that runs the backward."""
    code, facts = context.code, context.finding.facts
    call = context.call_at(context.finding.span)
    if call is None or not isinstance(facts, GradientNotReducedFacts) or facts.cause != "bypass":
        return
    inner = (node.func for node in of_kind(code.function(call), ast.Call) if isinstance(node.func, ast.Attribute))
    changes = [code.replace(func, code.segment(func.value)) for func in inner if func.attr == "module"]
    effect = "Its backward averages the gradients between the processes."
    yield from offered("Call the wrapped model instead of `.module`", effect, *changes)


def not_reentrant(context: Context) -> Iterator[Candidate]:
    """Pass `use_reentrant=False` to each of the checkpoints."""
    facts = context.finding.facts
    spans = facts.checkpoints if isinstance(facts, GradientNotReducedFacts) else ()
    effect = "One backward adds up all uses of a parameter before the gradients are averaged."
    yield from other_kind(context, spans, effect)


STRATEGIES: tuple[Strategy, ...] = (call_wrapper, not_reentrant, sum_losses)
"""What is proposed, preferred first."""
