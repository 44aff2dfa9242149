"""A loss that left torch, or that torch cannot differentiate: stay in torch, train on the scores, ask for gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, Function, dotted, root_name, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.rewrite import parenthesized
from tapecheck.fixes.story import reads
from tapecheck.fixes.strategies.cuts import (
    READ_ELSEWHERE,
    all_cuts,
    blamed_cuts,
    is_copying,
    is_list,
    roots_stored,
    stands_free,
)
from tapecheck.fixes.uncut import Holding, only_torch_reads
from tapecheck.rules import RAISING
from tapecheck.source.nodes import (
    attr_of,
    expression_of,
    given_to,
    id_of,
    is_number,
    is_read,
    method_called,
    name_called,
    of_kind,
    written_argument,
)
from tapecheck.tape import Span

_LEAVING = frozenset({"astype", "copy", "cpu", "detach", "item", "numpy", "tolist"})
_CONVERTING = frozenset({"float", "np.array", "np.asarray", "numpy.array", "numpy.asarray"})
_SAME_IN_TORCH = frozenset({
    "abs", "clip", "cos", "cosh", "dot", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "matmul", "maximum",
    "mean", "minimum", "prod", "sign", "sin", "sinh", "sqrt", "square", "sum", "tan", "tanh", "where",
})  # fmt: skip
"""Functions that NumPy and torch have by the same name, for the same thing."""
_REDUCING = frozenset(("mean", "prod", "sum"))
_TAKING_NUMBERS = frozenset(("clip", "where", *_REDUCING))
"""Functions of torch that take numbers behind the tensor: a bound, a value, a dimension."""
TO_INTEGERS = frozenset({"long", "int", "short", "bool", "byte", "char"})
CASTS = frozenset({"float", "double", "half", "type", "to", "type_as", *TO_INTEGERS})
_LOGIT_LOSS = "cross_entropy"


@dataclass(slots=True)
class _Stay:
    """What it takes to keep some functions in torch: the changes, and the lines they are on."""

    functions: list[Function]
    changes: list[Change] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    possible: bool = True

    def add(self, node: ast.stmt | ast.expr, changes: list[Change] | None) -> None:
        """Add what takes a node out; None says that nothing can."""
        self.possible = self.possible and changes is not None
        if changes:
            self.changes += changes
            self.lines.append(node.lineno)

    def drop_useless(self, code: Code, nodes: Iterable[ast.AST]) -> None:
        """Take out the statements that would only assign a name to itself."""
        for node in nodes:
            useless = isinstance(node, ast.Assign) and _says_nothing(code, node, self.changes)
            removed = code.delete(node) if useless and isinstance(node, ast.stmt) else None
            if removed is not None:
                low, high = code.start(node), code.end(node)
                self.changes = [change for change in self.changes if not low <= change.start < high]
                self.changes.append(removed)


def stay_in_torch(context: Context) -> Iterator[Candidate]:
    """Take out every step by which a value leaves torch, and by which it comes back."""
    cuts = blamed_cuts(context)
    if all(cut.how != "frozen" for cut in cuts):
        yield from stay_from(context, [cut.at.span for cut in cuts])


def stay_from(context: Context, places: list[Span]) -> Iterator[Candidate]:
    """Take out the steps by which a value leaves torch at some places, and those by which it comes back."""
    stay = _whole_stay(context, places)
    changes, lines = list(dict.fromkeys(stay.changes)), sorted(set(stay.lines))
    if not stay.possible or not changes:
        return
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    effect = "The value is computed by torch all the way, so that its graph reaches the parameters"
    effect += "." if context.finding.code in RAISING else ", and they are trained from now on."
    numpy = any(_stays_with_numpy(context.code, one, changes) for one in stay.functions)
    read = not numpy and only_torch_reads(context, places, shown=False)
    yield Candidate(
        f"Stay in torch ({where}): gradients flow again",
        effect if read else f"{effect} {READ_ELSEWHERE}",
        changes,
        safe=context.stops and read,
        group="stay",
    )


def _whole_stay(context: Context, places: list[Span]) -> _Stay:
    """Return what it takes to keep in torch what is cut at some places, function by function."""
    code = context.code
    spots = [spot for place in places if (spot := code.expression_at(place)) is not None]
    others = (code.statement_at(place) for place in places if code.expression_at(place) is None)
    statements = [statement for statement in others if statement is not None]
    stay = _Stay(list(dict.fromkeys(map(code.function, (*spots, *statements)))))
    for function in stay.functions:
        _stay(stay, code, function, [spot for spot in spots if code.function(spot) is function], context.place)
    for statement in statements:
        # `loss.requires_grad = True`: a value with a graph does not let itself be made a leaf.
        stay.add(statement, code.delete_all([statement]))
    return stay


def _stays_with_numpy(code: Code, function: Function, changes: list[Change]) -> bool:
    """Return whether a function computes with NumPy after changes that keep some values of it in torch.

    An operator with an array on one side and a tensor with a graph on the other raises.
    """
    calls = (node for node in walk(function) if isinstance(node, ast.Call) and _is_of_numpy(node))
    return any(
        not any(change.start < code.end(call) and change.end > code.start(call.func) for change in changes)
        for call in calls
    )


def _is_of_numpy(call: ast.Call) -> bool:
    """Return whether a call makes an array, or is one of NumPy's functions."""
    root = (dotted(call.func) or "").partition(".")[0]
    return method_called(call) in ("numpy", "__array__") or root in ("np", "numpy")


def _stay(stay: _Stay, code: Code, function: Function, spots: list[ast.expr], place: Span) -> None:
    """Follow the values that were cut through a function, and take the conversions on their way out.

    What comes after the place of the finding and stores nothing (`print(loss.item())`) is not on that way.
    """
    nodes = _in_order(function)
    imported = code.imported()
    parts = (node for spot in spots for node in of_kind(spot, ast.expr))
    carries = Holding({node for node in parts if root_name(node) not in imported}, nodes)
    stay.possible = stay.possible and not any(_needs_an_array(code, node, carries) for node in nodes)
    for node in (node for node in nodes if stay.possible and carries(node)):
        if isinstance(node, ast.stmt) and _makes_leaf(node):
            stay.add(node, code.delete_all([node]))
        elif isinstance(node, (ast.Call, ast.Attribute)) and not _comes_after(code, node, place):
            stay.add(node, _take_out(code, node, carries))
    stay.drop_useless(code, nodes)


def _needs_an_array(code: Code, node: ast.AST, carries: Holding) -> bool:
    """Return whether a tensor in the place of an array would raise, or be something else: torch goes through no
    elements backwards, rounds and looks at them in other ways, and has no operator with an array and a graph.
    """
    match node:
        case ast.Slice(step=ast.UnaryOp(op=ast.USub())):
            around = code.parent(node)
            whole = code.parent(around) if isinstance(around, ast.Tuple) else around
            return isinstance(whole, ast.Subscript) and carries(whole.value)
        case ast.Call(func=ast.Name(id="round"), args=[value, _]):
            return carries(value)
        case ast.Call(func=ast.Attribute(value=value, attr="view"), args=[], keywords=[]):
            return carries(value)
        case ast.Call(func=ast.Attribute(value=value, attr="max" | "min"), keywords=[ast.keyword(arg="axis"), *_]):
            return carries(value)
        case ast.BinOp(left=left, right=right) if carries(left) is not carries(right):
            other = right if carries(left) else left
            while isinstance(other, (ast.Attribute, ast.Subscript)):
                other = other.value
            return isinstance(other, ast.Call) and _is_of_numpy(other) and not _makes_array(other)
    return False


def _comes_after(code: Code, node: ast.expr, place: Span) -> bool:
    """Return whether a statement that stores nothing, behind a place, has a node, or makes it a leaf."""
    parent, around = code.parent(node), code.statement(node)
    behind = isinstance(around, ast.Expr) and around.lineno > place.end_line and place.file == code.source.path
    return behind or (isinstance(parent, ast.Expr) and _makes_leaf(parent))


def _makes_leaf(statement: ast.stmt) -> bool:
    """`x.requires_grad_()` or `x.requires_grad = True`."""
    if isinstance(statement, ast.Assign):
        return attr_of(statement.targets[0]) == "requires_grad"
    return method_called(expression_of(statement)) == "requires_grad_"


def _in_order(function: Function) -> list[ast.stmt | ast.expr]:
    """Return the statements and expressions of a function in the order of the text."""
    _, *parts = walk(function)
    nodes = (part for part in parts if isinstance(part, (ast.stmt, ast.expr)))
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def _take_out(code: Code, node: ast.Call | ast.Attribute, carries: Holding) -> list[Change] | None:
    """Return the changes that take one conversion out, none where it is no conversion; None where that cannot be
    done.
    """
    if isinstance(node, ast.Attribute):
        return [_without_suffix(code, node, node)] if node.attr == "data" and carries(node.value) else []
    if isinstance(node.func, ast.Attribute) and carries(node.func.value):
        if node.func.attr in ("std", "var"):
            # NumPy divides by n where torch divides by n - 1.
            return None
        leaves = node.func.attr in _LEAVING or node.func.attr == "requires_grad_"
        return [_without_suffix(code, node, node.func)] if leaves else []
    return _take_function_out(code, node, carries) if any(map(carries, given_to(node))) else []


def _take_function_out(code: Code, node: ast.Call, carries: Holding) -> list[Change] | None:
    """Return the changes that take out a function which converts what it is given: `np.array(x)`, `np.exp(x)`."""
    called = dotted(node.func) or ""
    owner, _, last = called.rpartition(".")
    if owner in ("np", "numpy") and last not in ("array", "asarray"):
        return _in_torch(code, node, last, carries) if last in _SAME_IN_TORCH else None
    value = written_argument(node, 0)
    if value is None or isinstance(value, ast.Starred) or not _converts(called):
        return []
    beside = _beside(code, node, carries) if owner in ("np", "numpy") else []
    if beside is None or not _is_several(code, value):
        return beside if beside is None else [*_only_argument(code, node, value), *beside]
    return _stacked(code, node, value, beside) if last in ("array", "asarray") else None


def _stacked(code: Code, call: ast.Call, value: ast.expr, beside: list[Change]) -> list[Change] | None:
    """Return the changes that stack the tensors of a list in the place of making an array of them."""
    if not is_list(code, value) or len(call.args) > 1 or call.keywords:
        return None
    torch, needed = code.torch()
    return [code.replace(call.func, f"{torch}.stack"), *needed, *beside]


def _beside(code: Code, node: ast.expr, carries: Holding) -> list[Change] | None:
    """Return the changes that make a tensor of the array which an operator has on its other side: torch takes none
    beside a tensor with a graph. None where that is what another function of NumPy gives.
    """
    other = _call_beside(code, node)
    if other is None or carries(other) or not _of_numpy(other):
        return []
    if not _makes_array(other):
        return None
    torch, needed = code.torch()
    return [code.replace(other.func, f"{torch}.as_tensor"), *needed]


def _call_beside(code: Code, node: ast.expr) -> ast.Call | None:
    """Return the call that an operator has on its other side."""
    around = code.parent(node)
    sides = (around.left, around.right) if isinstance(around, ast.BinOp) else ()
    return next((side for side in sides if side is not node and isinstance(side, ast.Call)), None)


def _of_numpy(call: ast.Call) -> bool:
    return (dotted(call.func) or "").partition(".")[0] in ("np", "numpy")


def _makes_array(call: ast.Call) -> bool:
    return method_called(call) in ("array", "asarray") and len(call.args) == 1 and not call.keywords


def _converts(called: str) -> bool:
    """Return whether a function makes another value of the same numbers."""
    last = called.rpartition(".")[2]
    return called in _CONVERTING or last in ("from_numpy", "Variable") or is_copying(called)


def _in_torch(code: Code, call: ast.Call, name: str, carries: Holding) -> list[Change] | None:
    """Return the changes that let torch's function of a name do what NumPy's does; None where it does not take what
    that takes. Several values in a list are stacked.
    """
    given = {keyword.arg for keyword in call.keywords}
    if not given <= ({"axis", "keepdims"} if "axis" in given else set()):
        return None
    torch, needed = code.torch()
    changes = [code.replace(call.func, f"{torch}.{name}"), *needed]
    for position, one in enumerate(call.args):
        if not position and name in _REDUCING and (parts := _parts(one)) and all(map(carries, parts)):
            start, end = code.start(one), code.end(one)
            changes += [Change(start, start, f"{torch}.stack("), Change(end, end, ")")]
            continue
        number = position > 0 and name in _TAKING_NUMBERS and is_number(one)
        if not number and (_is_several(code, one) or not carries(one)):
            return None
    return changes


def _is_several(code: Code, value: ast.expr) -> bool:
    """Return whether an expression gives several values, and not a tensor of them."""
    return isinstance(value, ast.Starred) or bool(_parts(value)) or is_list(code, value)


def _parts(values: ast.expr) -> list[ast.expr]:
    """Return the values that a list or tuple is written with."""
    if isinstance(values, ast.ListComp):
        return [values.elt]
    return values.elts if isinstance(values, (ast.List, ast.Tuple)) else []


def _without_suffix(code: Code, node: ast.expr, attribute: ast.Attribute) -> Change:
    """Rewrite `x.numpy()` to `x`: what stands behind the receiver, with the parentheses of the receiver kept."""
    end = code.end(attribute) - len(attribute.attr)
    start = len(code.text[: code.text.rindex(".", 0, end)].rstrip())
    return Change(start, code.end(node), "")


def _only_argument(code: Code, call: ast.Call, value: ast.expr) -> list[Change]:
    simple = isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    opening, closing = ("", "") if simple or stands_free(code, call) else ("(", ")")
    return [
        Change(code.start(call), code.start(value), opening),
        Change(code.end(value), code.end(call), closing),
    ]


def _says_nothing(code: Code, statement: ast.Assign, changes: list[Change]) -> bool:
    """Return whether changes leave an assignment of a name to itself."""
    start, end = code.start(statement.value), code.end(statement.value)
    own = sorted(change for change in changes if start <= change.start and change.end <= end)
    if not own or len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
        return False
    text = code.text[start:end]
    for change in reversed(own):
        text = text[: change.start - start] + change.content + text[change.end - start :]
    return text.strip() == statement.targets[0].id


def draw_with_graph(context: Context) -> Iterator[Candidate]:
    """Yield `q.rsample()` for `q.sample()`: the draw as a differentiable function of the distribution's parameters."""
    code = context.code
    draws: dict[int, ast.Call] = {}
    for cut in all_cuts(context):
        draw = code.expression_at(cut.at.span)
        if cut.how == "nondifferentiable" and isinstance(draw, ast.Call) and isinstance(draw.func, ast.Attribute):
            if draw.func.attr == "sample":
                draws[code.end(draw.func)] = draw
    # Of several draws some may be meant as constants.
    for ends in [[end] for end in draws] + ([list(draws)] if len(draws) > 1 else []):
        lines = sorted({draws[end].lineno for end in ends})
        yield Candidate(
            f"Draw with `.rsample()` on line{'s' if len(lines) > 1 else ''} {' and '.join(map(str, lines))}",
            "The draws are the same; gradients reach the parameters of the distribution, and train them from now on.",
            [Change(end - len("sample"), end, "rsample") for end in ends],
            group="rsample",
        )


def past_zeros(context: Context) -> Iterator[Candidate]:
    """Yield `mean + std * torch.randn_like(mean)` for `torch.normal(mean, std)`, `x + (x.round() - x).detach()` for
    `x.round()`: in the place of zeros a gradient comes back.
    """
    code = context.code
    for cut in all_cuts(context):
        call = code.expression_at(cut.at.span) if cut.how == "zero" else None
        if isinstance(call, ast.Call) and not call.keywords:
            if (text := _drawn(code, call)) is not None:
                title = f"Draw with a gradient on line {call.lineno}: `torch.randn_like`, scaled and moved"
                effect = "Gradients reach what the draw is made of, and train it from now on."
            elif (text := _passed_over(code, call)) is not None:
                title = f"Let gradients pass `{method_called(call)}` on line {call.lineno} as they are"
                effect = "The value is the same; gradients reach what it is made of, as if it had not been changed."
            else:
                continue
            whole = isinstance(code.parent(call), ast.stmt)
            yield Candidate(title, effect, [code.replace(call, text if whole else f"({text})")], group="zeros")


def _drawn(code: Code, call: ast.Call) -> str | None:
    """Return a normal draw as its mean and its deviation times noise; None for another call."""
    torch, needed = code.torch()
    if needed or dotted(call.func) != f"{torch}.normal" or len(call.args) != 2:
        return None
    mean, deviation = (parenthesized(code.segment(one)) for one in call.args)
    if is_number(call.args[0]) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    return f"{mean} + {deviation} * {torch}.randn_like({code.segment(call.args[0])})"


def _passed_over(code: Code, call: ast.Call) -> str | None:
    """Return a rounded value as the value itself and a constant that rounds it; None for another call."""
    if method_called(call) not in _STEPS:
        return None
    value = (
        written_argument(call, 0) if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
    )
    name = dotted(value) if value is not None and len(call.args) < 2 else None
    return f"{name} + ({code.segment(call)} - {name}).detach()" if name is not None else None


_STEPS = frozenset(("ceil", "floor", "round", "sign", "trunc"))
"""Functions that are flat between their steps."""


def train_on_scores(context: Context) -> Iterator[Candidate]:
    """Yield a loss on class predictions to `cross_entropy(scores, classes)`, which has a gradient."""
    code = context.code
    for picked in _picking(context):
        scores = _scores(code, picked)
        for call in _loss_calls(context):
            store = code.statement(call)
            if scores is None or not isinstance(store, ast.Assign) or code.function(store) is not code.function(picked):
                continue
            classes = _classes(code, store, picked)
            if classes is None:
                continue
            torch, needed = code.torch()
            changes: list[Change] = [*needed]
            text = code.segment(scores)
            if not isinstance(scores, ast.Name):
                statement = code.statement(picked)
                name = next(free for free in ("logits", "scores", "class_scores") if not code.loads(code.tree, free))
                place = code.insert_before(statement, [f"{name} = {' '.join(text.split())}"]) if statement else None
                if place is None or isinstance(statement, (ast.For, ast.While)):
                    continue
                changes += [place, code.replace(scores, name)]
                text = name
            changes.append(code.replace(store.value, f"{torch}.nn.functional.{_LOGIT_LOSS}({text}, {classes}.long())"))
            yield Candidate(
                f"Train on the scores: `{_LOGIT_LOSS}({text}, {classes}.long())`",
                "Cross entropy says how far the scores are from the classes, and has a gradient; `argmax` has none.",
                changes,
                group="scores",
            )


def _picking(context: Context) -> Iterator[ast.Call]:
    """Yield the calls that may have picked the classes which the backward's root was computed from."""
    code = context.code
    seen: list[ast.Call] = []
    for cut in all_cuts(context):
        picked = code.expression_at(cut.at.span)
        if isinstance(picked, ast.Call) and cut.how == "nondifferentiable":
            seen.append(picked)
    statement = code.statement_at(context.finding.span)
    if statement is not None:
        function = code.function(statement)
        made_of = set(ingredients_of(code, statement, function))
        for node in walk(function):
            # `_, classes = torch.max(scores, 1)`: that the second result has no gradient is no cut of its own.
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value not in seen:
                if {dotted(part) for part in targets(node)} & made_of:
                    seen.append(node.value)
    yield from seen


def _scores(code: Code, picked: ast.Call) -> ast.expr | None:
    """Return the scores that `argmax` or `max` picks the classes of, along a dimension that can be that of the
    classes.
    """
    if method_called(picked) not in ("argmax", "max"):
        return None
    value, given = _operand(code, picked)
    dims = [*given, *(keyword.value for keyword in picked.keywords if keyword.arg in ("dim", "axis"))]
    if value is picked.func or len(dims) != 1 or ast.unparse(dims[0]) not in ("1", "-1"):
        return None
    # What only makes probabilities of scores: cross_entropy does that itself.
    while isinstance(value, ast.Call) and name_called(value) in ("softmax", "log_softmax"):
        inner, _ = _operand(code, value)
        if inner is value.func:
            break
        value = inner
    return value


def _operand(code: Code, call: ast.Call) -> tuple[ast.expr, list[ast.expr]]:
    """Return what an op works on, and its other arguments: of a function the first, which itself stands for none."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    if owner is call.func or id_of(owner) in code.imported() or dotted(owner) == "torch.nn.functional":
        return call.args[0] if call.args else call.func, call.args[1:]
    return owner, call.args


def _loss_calls(context: Context) -> Iterator[ast.expr]:
    """Yield the expressions that were assigned to the root of the backward."""
    for call, store in roots_stored(context):
        if method_called(call) == "backward" and isinstance(store, ast.Assign) and len(store.targets) == 1:
            if store.lineno <= call.lineno:
                yield store.value
    statement = context.code.statement_at(context.finding.span)
    if isinstance(statement, ast.Assign):
        yield statement.value


def _classes(code: Code, store: ast.Assign, picked: ast.Call) -> str | None:
    """Return what the predictions are held against: the other argument of the loss, or the other side of a
    comparison.
    """
    names = {name for part in targets(code.statement(picked) or store) if (name := dotted(part)) is not None}
    stores, seen = [store], set[str]()
    for _ in range(4):
        value = stores[-1].value
        other = _other_side(value, picked, names)
        if other is not None:
            return _plain_classes(code, other)
        # Not in this expression: in what it is made of.
        following = [name for read in reads(value) if (name := dotted(read)) is not None and name not in seen]
        seen.update(following)
        given = (other for name in following for other in code.stores(code.function(store), name))
        stores = [other for other in given if isinstance(other, ast.Assign) and other.lineno < store.lineno]
        if not stores:
            return None
    return None


def _other_side(value: ast.expr, picked: ast.Call, names: set[str]) -> ast.expr | None:
    """Return what an expression holds against predictions, which are picked there or have one of some names."""
    for sides in map(_sides, ast.walk(value)):
        own = [any(part is picked or dotted(part) in names for part in ast.walk(side)) for side in sides]
        if own.count(True) == 1:
            return sides[own.index(False)]
    return None


def _sides(node: ast.AST) -> list[ast.expr]:
    """Return the two sides of a comparison, or the two arguments of a call."""
    match node:
        case ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.Call(args=[first, second]):
            return [first, second]
    return []


def _plain_classes(code: Code, node: ast.expr) -> str | None:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CASTS:
        node = node.func.value
    return code.segment(node) if dotted(node) is not None or isinstance(node, ast.Call) else None


def ingredients_of(code: Code, statement: ast.stmt, function: Function) -> list[str]:
    """Return the names that a statement's values were computed from, nearest first."""
    found: list[str] = []
    open_nodes: list[ast.AST] = [statement]
    while open_nodes:
        node = open_nodes.pop(0)
        for part in of_kind(node, ast.Name):
            if is_read(part) and part.id not in found and part.id not in code.imported():
                found.append(part.id)
                open_nodes += [store.value for store in code.stores(function, part.id) if isinstance(store, ast.Assign)]
    return found
