"""A forward that uses parameters from before a step: have the model give back what it has gathered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.strategies.arguments import with_keyword
from tapecheck.source.nodes import passed
from tapecheck.tape import Wrapper

_NAME = "reshard_after_forward"
_EFFECT = "The next forward gathers the parameters that the step has changed."


def give_back(context: Context) -> Iterator[Candidate]:
    """Pass `reshard_after_forward=True` where the model is sharded, and wherever it is told otherwise."""
    spans = [label.span for label in context.labels("built")]
    sharded = (event.at.span for event in context.events(Wrapper) if event.sharded)
    spans += [span for span in sharded if (call := context.call_at(span)) is not None and passed(call, _NAME)]
    changes = with_keyword(context, list(dict.fromkeys(spans)), _NAME, "True")
    doubt = "check that there is time for it: its parameters are gathered once more for each backward"
    yield from offered(f"Shard with `{_NAME}=True`", _EFFECT, *changes, doubt=doubt)


def reshard(context: Context) -> Iterator[Candidate]:
    """Call `model.reshard()` behind the forward that keeps the parameters."""
    code, call = context.code, context.call_at(context.finding.span)
    statement = code.statement(call) if call is not None else None
    if call is None or statement is None or isinstance(statement, ast.Return):
        return
    model = code.segment(call.func)
    if "\n" in model or getattr(code.function(call), "name", "") == "forward":
        return
    doubt = f"check that `{model}` is sharded wherever this runs"
    yield from offered(
        f"Call `{model}.reshard()` behind it",
        _EFFECT,
        code.insert_after(statement, [f"{model}.reshard()"]),
        doubt=doubt,
    )


STRATEGIES: tuple[Strategy, ...] = (reshard, give_back)
"""What is proposed, preferred first."""
