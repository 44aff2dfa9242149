"""Wrapped models: call the wrapper, and let DistributedDataParallel look for unused parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.source.nodes import walk
from tapecheck.tape import Span


def call_wrapper(context: Context) -> Iterator[Candidate]:
    """Rewrite `model.module(x)` to `model(x)` in the function that runs the backward."""
    code = context.code
    call = context.call_at(context.finding.span)
    if call is None or context.finding.facts.get("cause") != "bypass":
        return
    bypasses = [
        node
        for node in walk(code.function(call))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "module"
    ]
    if bypasses:
        inner = [node.func for node in bypasses]
        changes = [code.replace(func, code.segment(func.value)) for func in inner if isinstance(func, ast.Attribute)]
        yield Candidate(
            "Call the wrapped model instead of `.module`",
            "Its backward averages the gradients between the processes.",
            changes,
        )


def find_unused(context: Context) -> Iterator[Candidate]:
    """Pass `find_unused_parameters=True` where the model is wrapped."""
    code, wrapped = context.code, context.finding.facts.get("wrapped")
    call = context.call_at(Span(**wrapped)) if isinstance(wrapped, dict) else None
    if call is None:
        return
    try:
        text = rewrite.with_argument(code.segment(call), "find_unused_parameters", "True")
    except rewrite.RewriteError:
        return
    yield Candidate(
        "Wrap with `find_unused_parameters=True`",
        "Each forward looks for parameters that its outputs do not lead to, which takes time.",
        [code.replace(call, text)],
    )
