"""A graph carried from one iteration to the next: detach it on the way, after the backward if possible."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, append
from tapecheck.fixes.code import Code, LoopNode, dotted, root_name, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import Carrier, Collision, frames
from tapecheck.tape import Backward

_AFTER_BACKWARD = frozenset({
    "backward", "clip_grad_norm_", "clip_grad_value_", "manual_backward", "step", "unscale_", "update", "zero_grad",
})  # fmt: skip
_EFFECT = "Gradients no longer flow into earlier iterations; each iteration still learns from its own loss."
_NARROW = (
    "Gradients no longer flow through the stored value at all, in this iteration either: what comes before it "
    "learns only from its other uses."
)


def detach_carried(context: Context) -> Iterator[Candidate]:
    """Detach every carried value after the backward, where it is stored, or where the next iteration reads it."""
    for collision in context.collisions:
        if collision.same_iteration and _runs_once(collision):
            continue
        found = context.carriers(collision)
        if not found:
            continue
        groups = [found] if len(found) == 1 else [found, *([carrier] for carrier in found)]
        for place in (_after_backward, _at_store_after, _at_read, _before_read, _after_store, _at_loop_start):
            for group in groups:
                yield from _everywhere(context, collision, group, place)


def _runs_once(collision: Collision) -> bool:
    return not collision.second.at.iteration


class _Place:
    """The changes that detach one carrier at one place, and how the title names that place."""

    def __init__(self, changes: list[Change], where: str, narrow: bool = False) -> None:
        self.changes = changes
        self.where = where
        self.narrow = narrow


def _everywhere(
    context: Context, collision: Collision, group: list[Carrier], place: object
) -> Iterator[Candidate]:
    assert callable(place)
    for shape in _shapes(context, collision, group):
        places = [place(context, collision, carrier, shape) for carrier in group]
        if any(found is None for found in places):
            continue
        changes = [change for found in places for change in found.changes]
        names = " and ".join(dict.fromkeys(f"`{carrier.text}`" for carrier in group))
        narrow = any(found.narrow for found in places)
        raised = context.finding.code != "TAPE202" and context.finding.certain
        dropped = context.drop_retain(collision.second)
        if collision.first is not None and collision.first.at.span != collision.second.at.span:
            dropped = [*dropped, *context.drop_retain(collision.first)]
        also = " and drop `retain_graph=True`" if dropped else ""
        title = f"Detach {names} {places[0].where}{also}: gradients stop there"
        effect = _NARROW if narrow else _EFFECT
        safe = raised and not narrow
        if dropped:
            yield Candidate(title, effect, [*changes, *dropped], safe)
        yield Candidate(f"Detach {names} {places[0].where}: gradients stop there", effect, changes, safe)


def _shapes(context: Context, collision: Collision, group: list[Carrier]) -> list[str]:
    """The possible shapes of a carried value, likeliest first."""
    shapes: list[str] = []
    for carrier in group:
        shapes.extend(shape_of(context.code, carrier))
    return list(dict.fromkeys(shapes))


def shape_of(code: Code, carrier: Carrier) -> list[str]:
    if carrier.tensor:
        return ["tensor"]
    scope: ast.AST = code.owner(carrier.read) or carrier.function
    if not carrier.text.startswith("self."):
        scope = carrier.function
    for store in (
        code.stores(scope, carrier.text) if scope is carrier.function else _stores_in_class(scope, carrier)
    ):
        value = getattr(store, "value", None)
        target = store.targets[0] if isinstance(store, ast.Assign) else None
        if target is None or dotted(target) != carrier.text:
            continue
        if isinstance(value, ast.Tuple):
            return ["tuple"]
        if isinstance(value, (ast.List, ast.ListComp)):
            return ["list"]
        if isinstance(value, (ast.Dict, ast.DictComp)):
            return ["dict"]
    for node in walk(carrier.function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            if dotted(node.value) == carrier.text:
                return ["tuple"]
    if "lstm" in carrier.consumer.op.lower():
        return ["tuple", "tensor"]
    return ["tensor", "tuple"]


def _stores_in_class(scope: ast.AST, carrier: Carrier) -> list[ast.stmt]:
    return [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.stmt) and any(dotted(target) == carrier.text for target in targets(node))
    ]


def detached(text: str, shape: str) -> str:
    """The expression for a detached value of that shape."""
    name = "part" if root_name(ast.parse(text, mode="eval").body) != "part" else "item"
    if shape == "tuple":
        return f"tuple({name}.detach() for {name} in {text})"
    if shape == "list":
        return f"[{name}.detach() for {name} in {text}]"
    if shape == "dict":
        return f"{{key: {name}.detach() for key, {name} in {text}.items()}}"
    return f"{text}.detach()"


def after_backward(code: Code, backward: Backward, function: ast.AST) -> ast.stmt | None:
    """The last statement of the run of backward, clipping and step calls that a backward begins, in a function."""
    for frame in frames(backward.at):
        statement = code.statement_at(frame)
        if statement is None or code.function(statement) is not function:
            continue
        block = code.block(statement)
        last = statement
        for following in block[block.index(statement) + 1 :]:
            if not _belongs_to_step(following):
                break
            last = following
        return last
    return None


def _belongs_to_step(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in _AFTER_BACKWARD
    )


def _shared_loop(code: Code, one: ast.AST, other: ast.AST) -> LoopNode | None:
    loops = code.loops(other)
    return next((loop for loop in code.loops(one) if loop in loops), None)


def _after_backward(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    code = context.code
    last = after_backward(code, collision.first or collision.second, carrier.function)
    if last is None:
        return None
    loop = _shared_loop(code, last, carrier.read)
    if loop is None:
        return None
    place = code.within_block(last, loop.body)
    if place is None:
        return None
    for store in code.stores(loop, carrier.text):
        # Assigned anew behind this place, outside a branch: detaching here would be overwritten.
        if store is not loop and store.lineno > (last.end_lineno or 0) and store in loop.body:
            return None
    change = code.insert_after(last, [f"{carrier.text} = {detached(carrier.text, shape)}"])
    return None if change is None else _Place([change], "after the backward")


def _at_store_after(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """The store of a later iteration's value that comes behind the backward, or before the loop."""
    code = context.code
    last = after_backward(code, collision.first or collision.second, carrier.function)
    for store in code.stores(carrier.function, carrier.text):
        loop = _shared_loop(code, store, carrier.read)
        outside = not code.loops(store) or loop is None
        if not outside and (last is None or store.lineno <= (last.end_lineno or 0)):
            continue
        if outside and any(loop is not None for loop in [_shared_loop(code, store, carrier.read)]):
            continue
        changes = detach_value(code, store, carrier.text)
        if not changes:
            continue
        if not outside:
            return _Place(changes, "where it is stored")
        learned = collision.learned() & collision.leaves(carrier.sources)
        return _Place(changes, f"where it is computed (line {store.lineno})", narrow=bool(learned))
    return None


def detach_value(code: Code, store: ast.stmt, text: str) -> list[Change]:
    """Detach what a plain assignment stores to a name; tuples element by element."""
    if not isinstance(store, ast.Assign) or len(store.targets) != 1:
        return []
    target, value = store.targets[0], store.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for part, element in zip(target.elts, value.elts, strict=True):
            if dotted(part) == text and not isinstance(element, ast.Starred):
                change = append(code, element, ".detach()")
                return [change] if change is not None else []
        return []
    if dotted(target) != text:
        return []
    if isinstance(value, (ast.Tuple, ast.List)):
        try:
            new = rewrite.elements(_whole(code, store), _detach_element)
        except rewrite.RewriteError:
            return []
        start = code.start(value)
        return [Change(start, code.end(value), new)] if new != code.segment(value) else []
    if isinstance(value, ast.Constant):
        return []
    change = append(code, value, ".detach()")
    return [change] if change is not None else []


def _whole(code: Code, store: ast.Assign) -> str:
    return code.segment(store.value)


def _detach_element(text: str) -> str | None:
    node = ast.parse(f"({text})", mode="eval").body
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("detach", "item")
    ):
        return None
    if isinstance(node, ast.Constant):
        return None
    return rewrite.with_suffix(text, ".detach()")


def _starts_as_none(code: Code, carrier: Carrier) -> bool:
    scope: ast.AST | None = carrier.function
    if carrier.text.startswith("self."):
        scope = code.owner(carrier.read)
    if scope is None:
        return False
    for node in ast.walk(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
            dotted(part) == carrier.text for part in targets(node)
        ):
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                return True
    arguments = getattr(carrier.function, "args", None)
    return isinstance(arguments, ast.arguments) and any(
        isinstance(default, ast.Constant) and default.value is None
        for name, default in _defaults(arguments)
        if name == carrier.text
    )


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    for argument, default in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        yield argument.arg, default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield argument.arg, keyword_default


def _at_read(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """`model(x, h)` to `model(x, h.detach())`."""
    code = context.code
    if shape != "tensor" or _starts_as_none(code, carrier):
        return None
    change = append(code, carrier.read, ".detach()")
    if change is None:
        return None
    return _Place([change], "where it is read", narrow=carrier.every_step or collision.same_iteration)


def _before_read(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """A statement of its own before the one that reads the carried value."""
    code = context.code
    statement = code.statement(carrier.read)
    if statement is None:
        return None
    scope = carrier.function
    if carrier.text.startswith("self.") and isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # The first statement of the method that reads it: all reads of this call see the detached value.
        loads = code.loads(scope, carrier.text)
        first = min(loads, key=lambda node: (node.lineno, node.col_offset), default=carrier.read)
        statement = code.within_block(first, scope.body) or statement
    lines = _detaching_lines(code, carrier, shape)
    change = code.insert_before(statement, lines)
    if change is None:
        return None
    return _Place([change], "before it is read", narrow=carrier.every_step)


def _after_store(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    """A statement of its own behind the one that stores the value, where nothing in the function reads it later."""
    code = context.code
    for store in code.stores(carrier.function, carrier.text):
        later = [
            load
            for load in code.loads(carrier.function, carrier.text)
            if load.lineno > (store.end_lineno or 0)
        ]
        change = code.insert_after(store, [f"{carrier.text} = {detached(carrier.text, shape)}"])
        if change is not None and isinstance(store, ast.Assign):
            return _Place([change], "once it is stored", narrow=bool(later))
    return None


def _at_loop_start(context: Context, collision: Collision, carrier: Carrier, shape: str) -> _Place | None:
    code = context.code
    loops = code.loops(carrier.read)
    if not loops:
        return None
    change = code.insert_first(loops[-1].body, _detaching_lines(code, carrier, shape))
    return None if change is None else _Place([change], "at the start of each iteration", narrow=False)


def _detaching_lines(code: Code, carrier: Carrier, shape: str) -> Iterable[str]:
    line = f"{carrier.text} = {detached(carrier.text, shape)}"
    if _starts_as_none(code, carrier):
        return [f"if {carrier.text} is not None:", f"    {line}"]
    return [line]
