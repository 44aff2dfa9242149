"""A leaf changed in place: change it where nothing is recorded."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy
from tapecheck.fixes.code import Code, dotted, last_part
from tapecheck.source.nodes import of_kind
from tapecheck.tape import InPlace, Optimizer, Tape

_ASKED = (
    "Check that no later backward runs through a graph from before the change: code that is not visible may have saved "
    "the leaf."
)


def _title(members: Sequence[ast.stmt], where: str) -> str:
    if len(members) == 1:
        return f"Change the leaf under {where}"
    lines = ", ".join(str(number) for number in dict.fromkeys(member.lineno for member in members))
    return f"Change the leaves under {where} (line{'s' * (',' in lines)} {lines})"


def _groups(code: Code, statement: ast.stmt) -> Iterator[list[list[ast.stmt]]]:
    """Yield the changes to wrap together: one, those next to it, those of its function, all of the file."""
    together, everywhere = _run(code, statement), _runs(code)
    yield [[statement]]
    yield [together] if len(together) > 1 else []
    yield [run for run in everywhere if code.function(run[0]) is code.function(statement)]
    yield everywhere


def under_no_grad(context: Context) -> Iterator[Candidate]:
    """Wrap the change in `with torch.no_grad():`, alone or with the changes next to it."""
    code = context.code
    statement = code.statement_at(context.finding.span)
    if statement is None or isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return
    torch, needed = code.torch()
    doubt = _ASKED if _may_be_saved(context) else ""
    for group in _groups(code, statement):
        wrapped = [code.wrap(run[0], run[-1], f"with {torch}.no_grad():") for run in group]
        if not wrapped or None in wrapped:
            continue
        title = _title([member for run in group for member in run], f"`{torch}.no_grad()`")
        effect = "The value changes as written; autograd does not record the change."
        changes = [*(change for made in wrapped for change in made or ()), *needed]
        yield Candidate(title, effect, changes, safe=context.stops, group="no_grad", doubt=doubt)


def _may_be_saved(context: Context) -> bool:
    """Return whether a graph that code which is not visible built is still there at the change: it may have saved the
    leaf, and a later backward then fails.
    """
    return any(
        node.linked != "yes" and node.keeps != "no" and reading.ledger.freed_by(number) is None
        for reading in context.readings
        if any(isinstance(event, InPlace) and context.at_place(event.at) for event in reading.tape.events)
        for number, node in reading.ledger.nodes.items()
    )


def _runs(code: Code) -> list[list[ast.stmt]]:
    """Return every change of its kind in the file, in runs that can have a header of their own each."""
    runs: list[list[ast.stmt]] = []
    for other in (one for one in of_kind(code.tree, ast.stmt) if _changes_leaf(code, one) and not _quiet(code, one)):
        if not any(other in run for run in runs):
            runs.append(_run(code, other))
    return runs


def _run(code: Code, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements of a block, one behind the other, that change something in place, around one of them."""
    block = code.block(statement)
    first = last = block.index(statement)
    while first > 0 and _changes_leaf(code, block[first - 1]):
        first -= 1
    while last + 1 < len(block) and _changes_leaf(code, block[last + 1]):
        last += 1
    return block[first : last + 1]


def _changes_leaf(code: Code, statement: ast.stmt) -> bool:
    """Return whether a statement changes in place what may be a leaf: `x[i] = y`, `x.mul_(y)`, or `x -= y` where the
    text shows that `x` has a gradient or belongs to an object.
    """
    match statement:
        case ast.AugAssign(target=ast.Name(id=name)):
            return _reads_gradient(code, statement, name)
        case ast.AugAssign(target=target) | ast.Assign(targets=[ast.Subscript() as target]):
            changed = target
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=called, value=changed))) if _is_in_place(called):
            pass
        case _:
            return False
    # `init.zeros_(x)` switches autograd off itself, and a gradient is no leaf.
    return last_part(changed) not in ("grad", "init")


def _is_in_place(method: str) -> bool:
    return method.endswith("_") and not method.endswith("__")


def _reads_gradient(code: Code, statement: ast.stmt, name: str) -> bool:
    """Return whether the function around a statement reads the gradient of a variable."""
    return any(dotted(node) == f"{name}.grad" for node in ast.walk(code.function(statement)))


def _quiet(code: Code, statement: ast.stmt) -> bool:
    """Return whether a statement stands under a `with` or decorator that may switch autograd off already."""
    return any(
        isinstance(parent, (ast.With, ast.AsyncWith)) or bool(getattr(parent, "decorator_list", None))
        for parent in code.parents(statement)
    )


def leaf_out_of_place(context: Context) -> Iterator[Candidate]:
    """Rewrite `x += y` to `x = x + y`: a new tensor, with the leaf in its graph."""
    code = context.code
    statement = code.statement_at(context.finding.span)
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
        return
    name = statement.target.id
    # A leaf whose gradient is read, or that an optimizer holds, must stay the tensor it is.
    if _reads_gradient(code, statement, name):
        return
    here = ((tape, event) for tape in context.tapes for event in tape.events if isinstance(event, InPlace))
    if any(_trained(tape, event.leaf) for tape, event in here if context.at_place(event.at)):
        return
    try:
        text = rewrite.out_of_place(code.segment(statement))
    except rewrite.RewriteError:
        return
    yield Candidate(
        f"Compute a new tensor: `{name}` is then no leaf any more",
        f"Gradients flow through the change into the leaf; an optimizer that was given `{name}` keeps the old tensor.",
        [code.replace(statement, text)],
    )


def _trained(tape: Tape, leaf: int | None) -> bool:
    return any(isinstance(event, Optimizer) and leaf in event.params for event in tape.events)


STRATEGIES: tuple[Strategy, ...] = (
    under_no_grad,
    leaf_out_of_place,
)
"""What is proposed, preferred first."""
