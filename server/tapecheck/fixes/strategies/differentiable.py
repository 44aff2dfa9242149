"""A loss that left torch, or that torch cannot differentiate: stay in torch, train on the scores, ask for gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, Function, dotted, root_name, targets, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import frames, reads
from tapecheck.fixes.strategies.cuts import READ_ELSEWHERE, all_cuts, blamed_cuts, is_copying, is_list
from tapecheck.fixes.uncut import only_torch_reads
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.source.nodes import attr_of, given_to, id_of, last_name, method_called, of_kind
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
    """What it takes to keep one function in torch: the changes, and the lines they are on."""

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
            if isinstance(node, ast.Assign) and _says_nothing(code, node, self.changes):
                removed = code.delete(node)
                if removed is not None:
                    low, high = code.start(node), code.end(node)
                    self.changes = [change for change in self.changes if not low <= change.start < high]
                    self.changes.append(removed)


def stay_in_torch(context: Context) -> Iterator[Candidate]:
    """Take out every step by which a value leaves torch, and by which it comes back."""
    code = context.code
    spots: list[ast.expr] = []
    statements: list[ast.stmt] = []
    for cut in blamed_cuts(context):
        if cut.how == "frozen":
            return
        for frame in frames(cut.at)[:1]:
            expression, statement = code.expression_at(frame), code.statement_at(frame)
            if expression is not None:
                spots.append(expression)
            elif statement is not None:
                statements.append(statement)
    functions: dict[int, Function] = {
        id(function): function for function in (code.function(spot) for spot in [*spots, *statements])
    }
    changes: list[Change] = []
    lines: list[int] = []
    for function in functions.values():
        own = [spot for spot in spots if code.function(spot) is function]
        stay = _stay(code, function, own, context.place)
        if not stay.possible:
            return
        changes += stay.changes
        lines += stay.lines
    for statement in statements:
        # `loss.requires_grad = True`: a value with a graph does not let itself be made a leaf.
        removed = code.delete(statement)
        if removed is None:
            return
        changes.append(removed)
        lines.append(statement.lineno)
    changes = list(dict.fromkeys(changes))
    if not changes:
        return
    lines = sorted(set(lines))
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    raises = context.finding.code == BackwardWithoutGraph.code
    effect = "The value is computed by torch all the way, so that its graph reaches the parameters"
    effect += "." if raises else ", and they are trained from now on."
    numpy = any(_stays_with_numpy(code, one, changes) for one in functions.values())
    places = [frame for cut in blamed_cuts(context) for frame in frames(cut.at)[:1]]
    read = not numpy and only_torch_reads(context, places, shown=False)
    yield Candidate(
        f"Stay in torch ({where}): gradients flow again",
        effect if read else f"{effect} {READ_ELSEWHERE}",
        changes,
        safe=context.stops and read,
        group="stay",
    )


def _stays_with_numpy(code: Code, function: Function, changes: list[Change]) -> bool:
    """Return whether a function computes with NumPy after changes that keep some values of it in torch.

    An operator with an array on one side and a tensor with a graph on the other raises.
    """
    for node in walk(function):
        if not isinstance(node, ast.Call):
            continue
        called = dotted(node.func) or ""
        converts = attr_of(node.func) in ("numpy", "__array__")
        if not converts and called.partition(".")[0] not in ("np", "numpy"):
            continue
        start, end = code.start(node.func), code.end(node)
        if not any(change.start < end and change.end > start for change in changes):
            return True
    return False


def _stay(code: Code, function: Function, spots: list[ast.expr], place: Span) -> _Stay:
    """Follow the values that were cut through a function, and take the conversions on their way out.

    What comes after the place of the finding and stores nothing (`print(loss.item())`) is not on that way.
    """
    stay = _Stay()
    nodes = sorted(
        (node for node in walk(function) if isinstance(node, (ast.stmt, ast.expr)) and node is not function),
        key=lambda node: (node.lineno, node.col_offset),
    )
    carries = _Carrying(code, spots, nodes)
    for node in nodes:
        if not isinstance(node, (ast.Call, ast.Attribute)) or not carries(node):
            if isinstance(node, ast.stmt) and _makes_leaf(node) and carries(node):
                stay.add(node, code.delete_all([node]))
            continue
        parent, around = code.parent(node), code.statement(node)
        if isinstance(parent, ast.Expr) and _makes_leaf(parent):
            continue
        if isinstance(around, ast.Expr) and around.lineno > place.end_line and place.file == code.source.path:
            continue
        taken = _take_out(code, node, carries)
        stay.add(node, taken)
        if taken is None:
            return stay
    stay.drop_useless(code, nodes)
    return stay


class _Carrying:
    """Says which nodes of a function hold some values, or what is computed from them."""

    def __init__(self, code: Code, spots: list[ast.expr], nodes: Sequence[ast.AST]) -> None:
        imported = code.imported()
        parts = (node for spot in spots for node in of_kind(spot, ast.expr))
        self._inside = {id(node) for node in parts if root_name(node) not in imported}
        self._names: set[str] = set()
        # Twice: a loop hands a value on to lines above the one that stores it.
        for node in (*nodes, *nodes):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                if self(node.value):
                    self._names |= {name for part in targets(node) if (name := dotted(part)) is not None}

    def __call__(self, node: ast.AST) -> bool:
        return any(
            id(part) in self._inside or (isinstance(part, (ast.Name, ast.Attribute)) and dotted(part) in self._names)
            for part in ast.walk(node)
        )


def _makes_leaf(statement: ast.stmt) -> bool:
    """`x.requires_grad_()` or `x.requires_grad = True`."""
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        return attr_of(target) == "requires_grad"
    call = statement.value if isinstance(statement, ast.Expr) else None
    return method_called(call) == "requires_grad_"


def _take_out(code: Code, node: ast.Call | ast.Attribute, carries: _Carrying) -> list[Change] | None:
    """Return the changes that take one conversion out, none where it is no conversion; None where that cannot be
    done.
    """
    if isinstance(node, ast.Attribute):
        return [_without_suffix(code, node, node)] if node.attr == "data" and carries(node.value) else []
    called = dotted(node.func) or ""
    owner, _, last = called.rpartition(".")
    if isinstance(node.func, ast.Attribute) and carries(node.func.value):
        name = node.func.attr
        if name in ("std", "var"):
            # NumPy divides by n where torch divides by n - 1.
            return None
        if name in _LEAVING or name == "requires_grad_":
            return [_without_suffix(code, node, node.func)]
        return []
    given = given_to(node)
    if not any(map(carries, given)):
        return []
    if owner in ("np", "numpy") and last not in ("array", "asarray"):
        return _in_torch(code, node, last, carries) if last in _SAME_IN_TORCH else None
    converts = called in _CONVERTING or last in ("from_numpy", "Variable") or is_copying(called)
    if not node.args or isinstance(node.args[0], ast.Starred) or not converts:
        return []
    value = node.args[0]
    if isinstance(value, (ast.List, ast.Tuple, ast.ListComp)) or is_list(code, value):
        return None
    return _only_argument(code, node, value)


def _in_torch(code: Code, call: ast.Call, name: str, carries: _Carrying) -> list[Change] | None:
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
        number = position and name in _TAKING_NUMBERS and _is_number(one)
        if _parts(one) or isinstance(one, ast.Starred) or is_list(code, one) or not (number or carries(one)):
            return None
    return changes


def _parts(values: ast.expr) -> list[ast.expr]:
    """Return the values that a list or tuple is written with."""
    if isinstance(values, ast.ListComp):
        return [values.elt]
    return values.elts if isinstance(values, (ast.List, ast.Tuple)) else []


def _is_number(value: ast.expr) -> bool:
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float))


def _without_suffix(code: Code, node: ast.expr, attribute: ast.Attribute) -> Change:
    """Rewrite `x.numpy()` to `x`: what stands behind the receiver, with the parentheses of the receiver kept."""
    end = code.end(attribute) - len(attribute.attr)
    start = len(code.text[: code.text.rindex(".", 0, end)].rstrip())
    return Change(start, code.end(node), "")


def _only_argument(code: Code, call: ast.Call, value: ast.expr) -> list[Change]:
    parent = code.parent(call)
    free = isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.keyword, ast.Expr)) or (
        isinstance(parent, ast.Call) and parent.func is not call
    )
    simple = isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    opening, closing = ("", "") if free or simple else ("(", ")")
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
    if not isinstance(picked.func, ast.Attribute) or picked.func.attr not in ("argmax", "max"):
        return None
    module = id_of(picked.func.value) in code.imported()
    given = list(picked.args)
    value = given.pop(0) if module and given else picked.func.value
    dims = [*given, *(keyword.value for keyword in picked.keywords if keyword.arg in ("dim", "axis"))]
    if len(dims) != 1 or ast.unparse(dims[0]) not in ("1", "-1"):
        return None
    # What only makes probabilities of scores: cross_entropy does that itself.
    while isinstance(value, ast.Call):
        name = last_name(value.func)
        if name not in ("softmax", "log_softmax"):
            break
        inner = isinstance(value.func, ast.Attribute) and not (
            id_of(value.func.value) in code.imported() or dotted(value.func.value) == "torch.nn.functional"
        )
        if inner and isinstance(value.func, ast.Attribute):
            value = value.func.value
        elif value.args:
            value = value.args[0]
        else:
            break
    return value


def _loss_calls(context: Context) -> Iterator[ast.expr]:
    """Yield the expressions that were assigned to the root of the backward."""
    code = context.code
    for call in code.calls_in(context.finding.span):
        receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
        name = dotted(receiver) if receiver is not None else None
        if name is not None and attr_of(call.func) == "backward":
            for store in code.stores(code.function(call), name):
                if isinstance(store, ast.Assign) and len(store.targets) == 1 and store.lineno <= call.lineno:
                    yield store.value
    statement = code.statement_at(context.finding.span)
    if isinstance(statement, ast.Assign):
        yield statement.value


def _classes(code: Code, store: ast.Assign, picked: ast.Call) -> str | None:
    """Return what the predictions are held against: the other argument of the loss, or the other side of a
    comparison.
    """
    names = {name for part in targets(code.statement(picked) or store) if (name := dotted(part)) is not None}
    value: ast.expr = store.value
    seen: set[str] = set()
    for _ in range(4):
        for sides in map(_sides, ast.walk(value)):
            own = [any(part is picked or dotted(part) in names for part in ast.walk(side)) for side in sides]
            if own.count(True) == 1:
                return _plain_classes(code, sides[own.index(False)])
        # Not in this expression: in what it is made of.
        following = [read for read in reads(value) if dotted(read) is not None and dotted(read) not in seen]
        if not following:
            return None
        seen |= {name for read in following if (name := dotted(read)) is not None}
        stores = [
            other
            for read in following
            for other in code.stores(code.function(store), dotted(read) or "")
            if isinstance(other, ast.Assign) and other.lineno < store.lineno
        ]
        if not stores:
            return None
        value = stores[-1].value
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
            if isinstance(part.ctx, ast.Load) and part.id not in found:
                if root_name(part) in code.imported():
                    continue
                found.append(part.id)
                open_nodes += [store.value for store in code.stores(function, part.id) if isinstance(store, ast.Assign)]
    return found
