"""A graph that a stored value keeps alive: store the number, or the tensor without its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, appended
from tapecheck.fixes.code import Code, dotted, last_part, root_name, stored_pairs, targets
from tapecheck.fixes.edit import Change
from tapecheck.fixes.holders import only_read
from tapecheck.fixes.noticed import asks_for_graphs, doubt_of_detaching, only_kept
from tapecheck.fixes.story import frames, reads, touches
from tapecheck.fixes.strategies.evaluated import SAME, is_wrappable, without_recording
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.reading import Reading
from tapecheck.rules.words import join
from tapecheck.source.nodes import given_to, of_kind
from tapecheck.tape import Backward, Bind, Escape, Hold, LeafEscape, Ledger, Loop, Node, Site, Span, Tape

_STORING = frozenset({"append", "appendleft", "add", "push", "insert", "extend", "put", "update", "setdefault"})
_SHOWN_BY = ("print", "format", "float", "int", "round", "str", "str.format")
_FORMATTING = frozenset(f"builtins.{name}" for name in _SHOWN_BY)
_LOGGERS = (
    "absl.logging.", "aim.", "clearml.", "comet_ml.", "dvclive.", "logging.", "loguru.", "mlflow.", "neptune.",
    "swanlab.", "tensorboardX.", "torch.utils.tensorboard.", "tqdm.", "wandb.",
)  # fmt: skip
"""Libraries that take a number as they take a tensor of one element."""
_LEAF = "Gradients with respect to it are those of this iteration; they reach no earlier one."
_NO_EARLIER = "no gradient reaches earlier iterations"
_SAME = "What is learned stays as it is; the stored value no longer keeps a graph alive."
_ASKED = f"{_SAME} Check what asks whether it has a graph: it has none any more."
_CHANGED = f"{_SAME} Check what changes the tensor afterwards: the number stays."
_HANDED = (
    "What is stored no longer keeps a graph alive. Check what else the call does with it: through what it makes of it, "
    "or gives to others, nothing is learned any more."
)


def evaluate_without_grad(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around a loop that only evaluates."""
    code = context.code
    statement = code.statement_at(context.place)
    if statement is None:
        return
    loops = code.loops(statement)
    function = code.function(statement)
    if not loops or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    if not any(node.attr == "eval" for node in of_kind(function, ast.Attribute)):
        return
    effect = "Nothing is learned here; no graph is built at all, which also saves memory and time."
    yield from without_recording(context, loops[-1], "Evaluate", effect)


def store_without_graph(context: Context) -> Iterator[Candidate]:
    """Rewrite `total += loss` to `total += loss.item()`, `losses.append(loss)` to `losses.append(loss.detach())`."""
    code = context.code
    statement = code.statement_at(context.place)
    if statement is None:
        return
    if _learned_from(context):
        return
    stored = _stored(code, statement, context)
    alone, doubt = not _shared_with_unknown_code(context), doubt_of_detaching(context)
    for value, holder in stored:
        if holder is not None and _differentiated(code, statement, holder):
            # Gradients are taken with respect to it: without requires_grad there would be none.
            change = append(code, value, ".detach().requires_grad_(True)")
            if change is not None:
                yield Candidate(f"Make `{holder}` a new leaf each time: {_NO_EARLIER}", _LEAF, [change], group="store")
            continue
        parts = _parts(context, value, holder)
        for part in parts:
            if holder is not None and _only_logged(code, statement, holder) and _scalar(context, part):
                change = append(code, part, ".item()")
                if change is not None:
                    # A number does not change with the tensor that it is of; a sum is a value of its own.
                    summed = part is not value or isinstance(statement, ast.AugAssign)
                    own = summed or only_read(context, statement, part)
                    title = f"Store the number: {_number(code, part)}"
                    yield Candidate(title, _SAME if own else _CHANGED, [change], own, "number", doubt=doubt)
        for part in parts:
            changes = _detached(code, part)
            if changes:
                yield Candidate(f"Store {_short(code, part)} detached", _SAME, changes, alone, "store", doubt=doubt)
        if len(parts) > 1:
            together = [change for part in parts for change in _detached(code, part)]
            if together:
                yield Candidate("Store the values detached", _SAME, together, alone, "store", doubt=doubt)
        whole = _detached(code, value)
        if whole and value not in parts:
            yield Candidate(f"Store {_short(code, value)} detached", _SAME, whole, alone, "store", doubt=doubt)


def _shared_with_unknown_code(context: Context) -> bool:
    """Return whether opaque code was given what is stored here: it may differentiate what holds it, now or later."""
    for tape in context.tapes:
        given = {node for event in tape.events if isinstance(event, Escape) for node in event.nodes}
        for event in tape.events if given else ():
            if isinstance(event, Hold) and touches(event.at, context.stored) and not given.isdisjoint(event.nodes):
                return True
    return False


def _learned_from(context: Context) -> bool:
    """Return whether a backward runs through what is stored here, once it is: detached, it would teach nothing."""
    for reading in context.readings:
        kept: dict[int, int] = {}
        for place, event in enumerate(reading.tape.events):
            if isinstance(event, Hold) and touches(event.at, context.stored):
                kept.update((node, place) for node in event.nodes if node not in kept)
        if any(
            kept[node] < run.position for run in reading.runs for node in kept.keys() & run.traversal.executed.keys()
        ):
            return True
    return False


def store_all_detached(context: Context) -> Iterator[Candidate]:
    """Detach everything that goes into what is kept: on the line of the finding, `a, b = a + x, b + y`, and in the
    statements of the file that write graphs into the same value, `m[0, i:j] = x; m[1, i:j] = y`.
    """
    code = context.code
    statement = code.statement_at(context.place)
    if statement is None:
        return
    if _learned_from(context):
        return
    alone, doubt = not _shared_with_unknown_code(context), doubt_of_detaching(context)
    line = context.place.line
    members = [
        member for member in code.block(statement) if member.lineno <= line <= (member.end_lineno or member.lineno)
    ]
    written = [other for other in _written_into(context) if other not in members]
    for together in (members, [*members, *written]) if written else (members,):
        changes: list[Change] = []
        for member in together:
            for value, holder in _stored(code, member, context, everything=True):
                for part in _parts(context, value, holder):
                    known = member in written or _carries(context, part)
                    if known and not (holder is not None and _differentiated(code, member, holder)):
                        changes += _detached(code, part)
        if len(changes) > 1:
            yield Candidate(
                "Store the values detached",
                _SAME,
                list(dict.fromkeys(changes)),
                alone,
                "all",
                fallback=True,
                doubt=doubt,
            )


def _written_into(context: Context) -> list[ast.stmt]:
    """Return the statements that write something with a graph into what was kept at the end of the iteration before."""
    code, facts = context.code, context.finding.facts
    found: list[ast.stmt] = []
    if not isinstance(facts, GraphKeptFacts):
        return found
    for tape in context.tapes:
        if not any(isinstance(event, Hold) and touches(event.at, context.stored) for event in tape.events):
            continue
        kept: dict[int, tuple[int, ...]] = {}
        ledger = Reading(tape).ledger
        for event in tape.events:
            if not isinstance(event, Hold) or event.holder != facts.holder:
                continue
            before, kept[event.loop] = kept.get(event.loop), event.nodes
            if before is None:
                continue
            for number in ledger.ancestry(event.nodes).keys() - ledger.ancestry(before).keys():
                node = ledger.nodes.get(number)
                inputs = node.inputs if node is not None else ()
                leading = [not ledger.ancestry([source]).keys().isdisjoint(before) for source in inputs]
                if node is None or not any(leading) or all(leading):
                    continue
                place = code.statement_at(node.at.span)
                if isinstance(place, ast.Assign) and isinstance(place.targets[0], ast.Subscript) and place not in found:
                    found.append(place)
    return found


def change_without_grad(context: Context) -> Iterator[Candidate]:
    """Make a change in place, `s.mul_(0.9).add_(0.1 * p)`, where nothing is recorded."""
    code = context.code
    statement = code.statement_at(context.place)
    call = statement.value if isinstance(statement, ast.Expr) else None
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.func.attr.endswith("_"):
        call = call.func.value
    if statement is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return
    torch, needed = code.torch()
    wrapped = code.wrap(statement, statement, f"with {torch}.no_grad():")
    if wrapped is not None:
        title = f"Change `{_short_text(code, call)}` under `{torch}.no_grad()`"
        alone = not asks_for_graphs(context) and not _learned_from(context) and not _shared_with_unknown_code(context)
        yield Candidate(title, _SAME if alone else _ASKED, [*wrapped, *needed], safe=alone, group="no_grad")


def _short_text(code: Code, call: ast.Call) -> str:
    """Return what a chain of changes in place is called on."""
    base: ast.expr = call
    while isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
        base = base.func.value
    return _line(code.segment(base))


def detach_previous(context: Context) -> Iterator[Candidate]:
    """`self.x = self.x + y` to `self.x = self.x.detach() + y`: the new part keeps its graph for this iteration."""
    code = context.code
    statement = code.statement_at(context.place)
    if not isinstance(statement, (ast.Assign, ast.AugAssign)):
        return
    for value, holder in _stored(code, statement, context):
        if holder is None:
            continue
        for read in reads(value):
            if dotted(read) == holder:
                change = append(code, read, ".detach()")
                if change is not None:
                    yield Candidate(
                        f"Detach the old `{holder}`: {_NO_EARLIER}",
                        "Gradients reach this iteration's part only, no longer those of earlier iterations.",
                        [change],
                        fallback=True,
                    )
    value = statement.value
    change = append(code, value, ".detach().requires_grad_(True)")
    if change is not None:
        name = dotted(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target) or "it"
        yield Candidate(
            f"Make `{name}` a new leaf each time: {_NO_EARLIER}",
            _LEAF,
            [change],
            fallback=True,
        )


def _handed_over(code: Code, tape: Tape, stored: Span) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield what leads to a graph that a line stores among the arguments of the calls that led there."""
    ledger = tape.ledger or Ledger()
    if tape.ledger is None:
        for event in tape.events:
            ledger.feed(event)
    bound: dict[str, set[int]] = {}
    for event in tape.events:
        if isinstance(event, Bind) and event.node is not None:
            bound.setdefault(event.name, set()).add(event.node)
        if not isinstance(event, Hold) or (event.at.file, event.at.line) != (stored.file, stored.line):
            continue
        kept = ledger.ancestry(event.nodes).keys()
        built = [ledger.nodes[number].at.span for number in kept & ledger.nodes.keys()]
        for call in map(code.expression_at, event.at.stack):
            if not isinstance(call, ast.Call):
                continue
            for argument in _arguments(call):
                parts = [read for read in reads(argument) if bound.get(dotted(read) or "", set()) & kept]
                if not parts and any(code.spans(argument, span) for span in built):
                    parts = [argument]
                for part in parts:
                    yield call, part


def _arguments(call: ast.Call) -> list[ast.expr]:
    return given_to(call)


def detach_argument(context: Context) -> Iterator[Candidate]:
    """Yield where a helper stores what it was given: detach the argument at its call."""
    code, stored = context.code, context.stored
    given: dict[ast.Call, list[ast.expr]] = {}
    for tape in context.tapes:
        for call, part in _handed_over(code, tape, stored):
            parts = given.setdefault(call, [])
            if part not in parts:
                parts.append(part)
    kept, doubt = given and not _learned_from(context), doubt_of_detaching(context)
    alone = {call: bool(kept) and only_kept(context, call, stored) for call in given}
    for call, parts in given.items():
        changes = [change for part in parts if (change := append(code, part, ".detach()")) is not None]
        each = [[change] for change in changes]
        for several in [changes, *each] if len(changes) > 1 else each:
            names = [code.segment(part) for part, change in zip(parts, changes, strict=False) if change in several]
            title = f"Hand over {join(f'`{_line(name)}`' for name in names)} detached (line {call.lineno})"
            effect = _SAME if alone[call] else _HANDED
            yield Candidate(title, effect, several, safe=alone[call], group="hand over", doubt=doubt)


def _line(text: str) -> str:
    """Return an expression's text on one line."""
    return " ".join(text.split())


def _differentiated(code: Code, statement: ast.stmt, holder: str) -> bool:
    """Return whether the function takes gradients with respect to a name: `grad(loss, x)`, `x.grad`."""
    function = code.function(statement)
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and dotted(node.value) == holder:
            return True
        if isinstance(node, ast.Call) and last_part(node.func) == "grad":
            inputs = [
                *node.args[1:2],
                *(keyword.value for keyword in node.keywords if keyword.arg == "inputs"),
            ]
            if any(dotted(read) == holder for value in inputs for read in reads(value)):
                return True
    return False


def _stored(
    code: Code, statement: ast.stmt, context: Context, everything: bool = False
) -> list[tuple[ast.expr, str | None]]:
    """Return the expressions that a statement stores, with the name that holds them."""
    match statement:
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            return [(value, dotted(target))]
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            held = {event.holder for _, event in context.events_here(Hold) if isinstance(event, Hold)}
            pairs = [(part, dotted(name)) for name, part in zip(names, values, strict=True)]
            return (everything and pairs) or [(part, name) for part, name in pairs if name in held] or pairs
        case ast.Assign(targets=[target], value=value):
            return [(value, dotted(target))]
    found: list[tuple[ast.expr, str | None]] = []
    low = context.place
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(value=holder, attr=name), args=[*_, given]) if name in _STORING:
                if low.line <= (node.end_lineno or 0) and node.lineno <= low.end_line:
                    found.append((given, dotted(holder)))
    return found


def _parts(context: Context, value: ast.expr, holder: str | None) -> list[ast.expr]:
    """Return the smallest expressions of a stored value that carry its graph: `val` of `val * n`."""
    if isinstance(value, (ast.Tuple, ast.List)):
        return [element for element in value.elts if _carries(context, element)] or list(value.elts)
    if isinstance(value, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return [value.elt]
    if isinstance(value, (ast.Dict, ast.DictComp)):
        return [value.value] if isinstance(value, ast.DictComp) else list(value.values)
    if not isinstance(value, (ast.BinOp, ast.UnaryOp)):
        return [value]
    operands = [
        operand
        for operand in _operands(value)
        if not isinstance(operand, ast.Constant)
        and dotted(operand) != holder
        and not (isinstance(operand, (ast.Attribute, ast.Subscript)) and root_name(operand) == holder)
    ]
    carrying = [operand for operand in operands if _carries(context, operand)]
    return carrying if len(carrying) == 1 else [value]


def _operands(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.BinOp):
        yield from _operands(value.left)
        yield from _operands(value.right)
    elif isinstance(value, ast.UnaryOp):
        yield from _operands(value.operand)
    else:
        yield value


def _carries(context: Context, part: ast.expr) -> bool:
    """Return whether a tape says that what an expression reads has a graph."""
    names = {dotted(inner) for read in reads(part) for inner in _elements_of(read)}
    low, high = part.lineno, part.end_lineno or part.lineno
    for tape in context.tapes:
        for event in tape.events:
            if isinstance(event, Bind) and event.node is not None and event.name in names:
                return True
            if isinstance(event, Node) and low <= event.at.line <= high:
                span = event.at.span
                if context.code.expression_at(span) is part:
                    return True
    return False


def _elements_of(read: ast.expr) -> Iterator[ast.expr]:
    """Yield what is read, and what it is an element or a part of: `x` of `x[:, 1]`."""
    yield read
    while isinstance(read, ast.Subscript):
        read = read.value
        yield read


def _scalar(context: Context, part: ast.expr) -> bool:
    """Return whether a value is known to be one number: a backward without a gradient argument started from it."""
    name = dotted(part)
    averages = not _unreduced(context.code)
    for tape in context.tapes:
        roots: set[int] = set()
        bound: set[int] = set()
        for event in tape.events:
            if isinstance(event, Backward) and event.call == "backward":
                call = context.code.expression_at(event.at.span)
                if isinstance(call, ast.Call) and not call.args:
                    roots.update(root.node for root in event.roots if root.node is not None)
            elif isinstance(event, Bind):
                if event.node is not None and event.name == name:
                    bound.add(event.node)
            elif isinstance(event, Node):
                if context.code.expression_at(event.at.span) is part:
                    bound.add(event.id)
                if averages and ("loss" in event.op or "entropy" in event.op):
                    roots.add(event.id)
        if bound and bound <= roots:
            return True
    return False


def _unreduced(code: Code) -> bool:
    """Return whether some loss may be asked for one value per sample: `reduction="none"`."""
    return any(
        isinstance(node, ast.keyword)
        and node.arg in ("reduction", "reduce")
        and not (isinstance(node.value, ast.Constant) and node.value.value in ("mean", "sum", "batchmean", True))
        for node in ast.walk(code.tree)
    )


def _only_logged(code: Code, statement: ast.stmt, holder: str) -> bool:
    """Return whether a holder starts as a plain number and is only reckoned with, formatted or printed."""
    function = code.function(statement)
    scope: ast.AST = function
    if holder.startswith("self."):
        scope = code.owner(statement) or function
    starts = [store for store in of_kind(scope, ast.Assign) if holder in {dotted(target) for target in _flat(store)}]
    if not starts or not all(_is_number(store, holder) for store in starts if store is not statement):
        return False
    attribute = holder.rsplit(".", 1)[-1]
    whole = code.tree if holder != attribute else scope
    names = _made_of(whole, attribute)
    # `mean = total / n`, then `mean.item()`: a number has none of a tensor's methods.
    return not any(
        (isinstance(node, ast.Attribute) and _within(node.value, name)) for name in names for node in ast.walk(whole)
    ) and not any(
        last_part(read) in names
        for node in ast.walk(whole)
        for part in (_handed_on(code, node) if node is not statement else ())
        for read in reads(part)
    )


def _handed_on(code: Code, node: ast.AST) -> Sequence[ast.expr]:
    """Return the parts of a node from which a value goes where it may have to be a tensor, or a number of torch's own
    precision.
    """
    if isinstance(node, ast.Call):
        return [] if _is_shown_by(code, node) else _arguments(node)
    if isinstance(node, ast.Compare):
        # The sum of numbers is rounded otherwise than that of tensors: what is compared may come out otherwise.
        return [node]
    if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None:
        # The caller may want the tensor.
        return [node.value]
    if isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)) and not _is_shown(code, node):
        # Under another name, or in a container, it may be read as a tensor.
        values = node.values if isinstance(node, ast.Dict) else node.elts
        return [
            value
            for value in values
            if isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load)
        ]
    if isinstance(node, (ast.Assign, ast.AugAssign)) and any(
        isinstance(target, ast.Subscript) for target in targets(node)
    ):
        return [node.value]
    return []


def _is_shown_by(code: Code, call: ast.Call) -> bool:
    path = code.path(call.func)
    return path in _FORMATTING or path.startswith(_LOGGERS)


def _is_shown(code: Code, node: ast.expr) -> bool:
    """Return whether a container is made to show its values: `"%d %f" % (n, total)`, `wandb.log({"a": total})`."""
    for parent in code.parents(node):
        if isinstance(parent, ast.Call):
            return _is_shown_by(code, parent)
        if isinstance(parent, (ast.JoinedStr, ast.FormattedValue)):
            return True
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, ast.Mod) and code.path(parent.left) == "builtins.str"
        if not isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.keyword)):
            return False
    return False


def _made_of(scope: ast.AST, name: str) -> list[str]:
    """Return the names that arithmetic on a holder is stored under, and the holder's own."""
    names = [name]
    for known in names:
        for store in ast.walk(scope):
            if (
                isinstance(store, (ast.Assign, ast.AnnAssign))
                and store.value is not None
                and _within(store.value, known)
            ):
                targets = store.targets if isinstance(store, ast.Assign) else [store.target]
                made = {last_part(target) for target in targets}
                names += sorted(made - {"", *names})
    return names


def _within(value: ast.expr, name: str) -> bool:
    """Return whether a value is another or is reckoned from it, by operators alone."""
    if isinstance(value, ast.BinOp):
        return _within(value.left, name) or _within(value.right, name)
    if isinstance(value, ast.UnaryOp):
        return _within(value.operand, name)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("float", "round"):
        return any(_within(part, name) for part in value.args)
    return last_part(value) == name


def _flat(store: ast.Assign) -> list[ast.expr]:
    flat: list[ast.expr] = []
    for target in store.targets:
        flat.extend(target.elts if isinstance(target, ast.Tuple) else [target])
    return flat


def _is_number(store: ast.Assign, holder: str) -> bool:
    pairs = stored_pairs(store.targets[0], store.value)
    value = next((part for name, part in pairs if dotted(name) == holder), store.value)
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and value.value is not True


def _detached(code: Code, part: ast.expr) -> list[Change]:
    """`x` detached: a call behind another that only moves the tensor is put before it."""
    if isinstance(part, ast.Starred):
        return []
    if isinstance(part, (ast.Tuple, ast.List)):
        return [change for element in part.elts for change in _detached(code, element)]
    if isinstance(part, ast.Constant):
        return []
    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and not part.args:
        if part.func.attr in ("cpu", "cuda", "clone") and dotted(part.func.value) is not None:
            return appended(code, part.func.value, ".detach()")
    return appended(code, part, ".detach()")


def _names_of(events: object, nodes: tuple[int, ...]) -> set[str]:
    assert isinstance(events, list)
    return {event.name for event in events if isinstance(event, Bind) and event.node in nodes}


def _number(code: Code, part: ast.expr) -> str:
    text = _short(code, part)
    return f"{text[:-1]}.item()`" if text.endswith("`") else "`.item()`"


def _short(code: Code, part: ast.expr) -> str:
    text = " ".join(code.segment(part).split())
    try:
        text = rewrite.parenthesized(text)
    except rewrite.RewriteError:
        pass
    return f"`{text}`" if len(text) <= 40 else "the value"


def mend_all_of_the_loop(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around a loop in which several values keep graphs that nothing walks: one edit mends
    what a detached value each would.
    """
    finding, facts = context.finding, context.finding.facts
    if facts.loop is None or not isinstance(facts, GraphKeptFacts) or facts.backwarded:
        return
    others = (other for other in context.report.findings if other.code == finding.code and other.span != finding.span)
    if any(other.facts.loop == facts.loop for other in others):
        yield from islice(record_nothing(context), 1)


def record_nothing(context: Context) -> Iterator[Candidate]:
    """Put `with torch.no_grad():` around a loop that keeps graphs which nothing walks, or around what calls it.

    Unlike a detached value it also helps where what is kept lies in objects, in states of several loops or in beams.
    """
    for place, what in _regions(context):
        if is_wrappable(place) and _unwalked(context.readings, context.code, place):
            yield from without_recording(context, place, f"Run {what}", SAME, "no_grad")


def _regions(context: Context) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the loop that a finding is about, the loops around it, and the calls that lead to it, with their names."""
    code = context.code
    span = context.finding.facts.loop
    if span is None:
        return
    seen: list[ast.stmt] = []
    loop = code.statement_at(span) if span.file == code.source.path else None
    if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        for number, around in enumerate([loop, *code.loops(loop)]):
            if around not in seen:
                seen.append(around)
                yield around, "the loop" if not number else f"the loop on line {around.lineno}"
    entered = (event.at for tape in context.tapes for event in tape.events if isinstance(event, Loop))
    for site in entered:
        for call in site.stack if site.span == span else ():
            statement = code.statement_at(call) if call.file == code.source.path else None
            if statement is not None and statement not in seen:
                seen.append(statement)
                yield statement, f"the call on line {statement.lineno}"


def _unwalked(readings: Iterable[Reading], code: Code, statement: ast.stmt) -> bool:
    """Return whether no backward, no unknown code and no caller can walk a graph that a statement records."""
    path, first, last = code.source.path, statement.lineno, statement.end_lineno or statement.lineno
    ran = False

    def inside(site: Site) -> bool:
        return any(frame.file == path and first <= frame.line <= last for frame in frames(site))

    for reading in readings:
        own = [node.id for node in reading.ledger.nodes.values() if inside(node.at)]
        if not own and not any(inside(loop.event.at) for loop in reading.loops.values()):
            continue
        # What a program that raises would have done next, or one beyond the work limit does, nobody has seen.
        ran = ran or reading.ended == "finished"
        if reading.ended not in ("finished", "raised") or not reading.noticed.isdisjoint(own):
            return False
        if any(inside(run.at) for run in reading.runs):
            return False
        # What is handed to unknown code in there may be trained by it.
        if any(isinstance(event, (Escape, LeafEscape)) and inside(event.at) for event in reading.tape.events):
            return False
    return ran


STRATEGIES: tuple[Strategy, ...] = (
    evaluate_without_grad,
    mend_all_of_the_loop,
    store_without_graph,
    detach_argument,
    record_nothing,
    store_all_detached,
    change_without_grad,
    detach_previous,
)
"""What is proposed, preferred first."""
