"""A graph that a stored value keeps alive: store the number, or the tensor without its graph."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice, takewhile

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, Strategy, appended
from tapecheck.fixes.code import Code, dotted, last_part, root_name, stored_pairs, targets
from tapecheck.fixes.edit import Change
from tapecheck.fixes.holders import only_read
from tapecheck.fixes.noticed import asks_for_graphs, doubt_of_detaching, only_kept
from tapecheck.fixes.story import lies_in, reads, touches
from tapecheck.fixes.strategies.evaluated import SAME, is_wrappable, without_recording
from tapecheck.rules.graph_kept.facts import GraphKeptFacts
from tapecheck.rules.reading import Reading
from tapecheck.rules.words import join
from tapecheck.source.nodes import STORES, expression_of, given_to, id_of, is_read, last_line, of_kind, passed
from tapecheck.tape import Backward, Bind, Escape, Hold, LeafEscape, Ledger, Loop, Node, Span, Tape

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
    loops = code.loops(statement) if statement is not None else []
    function = code.function(loops[-1]) if loops else code.tree
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    if any(node.attr == "eval" for node in of_kind(function, ast.Attribute)):
        effect = "Nothing is learned here; no graph is built at all, which also saves memory and time."
        yield from without_recording(context, loops[-1], "Evaluate", effect)


def store_without_graph(context: Context) -> Iterator[Candidate]:
    """Rewrite `total += loss` to `total += loss.item()`, `losses.append(loss)` to `losses.append(loss.detach())`."""
    code = context.code
    statement = code.statement_at(context.place)
    if statement is None or _learned_from(context):
        return
    alone, doubt = not _shared_with_unknown_code(context), doubt_of_detaching(context)
    for value, holder in _stored(statement, context):
        if holder is not None and _differentiated(code, statement, holder):
            # Gradients are taken with respect to it: without requires_grad there would be none.
            yield from _new_leaf(code, value, holder, "store")
            continue
        parts = _parts(context, value, holder)
        logged = holder is not None and _only_logged(code, statement, holder)
        for part in parts if logged else ():
            # A number does not change with the tensor that it is of; a sum is a value of its own.
            summed = part is not value or isinstance(statement, ast.AugAssign)
            yield from _as_number(context, statement, part, summed, doubt)
        for what, changes in _ways_to_detach(code, value, parts):
            if changes:
                yield Candidate(f"Store {what} detached", _SAME, changes, alone, "store", doubt=doubt)


def _ways_to_detach(code: Code, value: ast.expr, parts: list[ast.expr]) -> list[tuple[str, list[Change]]]:
    """Return what detaches each part of a value, all of them, or the value as a whole, each with its name."""
    each = [(_short(code, part), _detached(code, part)) for part in parts]
    together = [("the values", [change for _, changes in each for change in changes])] if len(parts) > 1 else []
    whole = [(_short(code, value), _detached(code, value))] if value not in parts else []
    return [*each, *together, *whole]


def _shared_with_unknown_code(context: Context) -> bool:
    """Return whether opaque code was given what is stored here: it may differentiate what holds it, now or later."""
    for tape in context.tapes:
        given = {node for event in tape.events if isinstance(event, Escape) for node in event.nodes}
        if given and not given.isdisjoint(node for _, event in _kept_here(context, tape) for node in event.nodes):
            return True
    return False


def _as_number(context: Context, statement: ast.stmt, part: ast.expr, summed: bool, doubt: str) -> Iterator[Candidate]:
    """Yield the store of a number in place of a tensor that is known to be one."""
    for change in appended(context.code, part, ".item()") if _scalar(context, part) else ():
        own = summed or only_read(context, statement, part)
        title = f"Store the number: {_number(context.code, part)}"
        yield Candidate(title, _SAME if own else _CHANGED, [change], own, "number", doubt=doubt)


def _kept_here(context: Context, tape: Tape) -> Iterator[tuple[int, Hold]]:
    """Yield what a tape says is kept where the finding's line stores, with the place on the tape."""
    for place, event in enumerate(tape.events):
        if isinstance(event, Hold) and touches(event.at, context.stored):
            yield place, event


def _learned_from(context: Context) -> bool:
    """Return whether a backward runs through what is stored here, once it is: detached, it would teach nothing."""
    for reading in context.readings:
        kept: dict[int, int] = {}
        for place, event in _kept_here(context, reading.tape):
            kept.update((node, place) for node in event.nodes if node not in kept)
        walked = ((run, kept.keys() & run.traversal.executed.keys()) for run in reading.runs if kept)
        if any(kept[node] < run.position for run, nodes in walked for node in nodes):
            return True
    return False


def store_all_detached(context: Context) -> Iterator[Candidate]:
    """Detach everything that goes into what is kept: on the line of the finding, `a, b = a + x, b + y`, and in the
    statements of the file that write graphs into the same value, `m[0, i:j] = x; m[1, i:j] = y`.
    """
    code = context.code
    statement = code.statement_at(context.place)
    if statement is None or _learned_from(context):
        return
    alone, doubt = not _shared_with_unknown_code(context), doubt_of_detaching(context)
    members = [member for member in code.block(statement) if member.lineno <= context.place.line <= last_line(member)]
    written = [other for other in _written_into(context) if other not in members]
    for together in (members, [*members, *written]) if written else (members,):
        changes = [change for one in together for change in _all_detached(context, one, one in written)]
        if len(changes) > 1:
            every = list(dict.fromkeys(changes))
            yield Candidate("Store the values detached", _SAME, every, alone, "all", fallback=True, doubt=doubt)


def _all_detached(context: Context, statement: ast.stmt, known: bool) -> Iterator[Change]:
    """Yield what detaches all that a statement stores and that has a graph, or is known to."""
    for value, holder in _stored(statement, context, everything=True):
        if holder is None or not _differentiated(context.code, statement, holder):
            parts = (part for part in _parts(context, value, holder) if known or _carries(context, part))
            yield from (change for part in parts for change in _detached(context.code, part))


def _written_into(context: Context) -> list[ast.stmt]:
    """Return the statements that write something with a graph into what was kept at the end of the iteration before."""
    code, facts = context.code, context.finding.facts
    found: dict[ast.stmt, None] = {}
    holder = facts.holder if isinstance(facts, GraphKeptFacts) else None
    for reading in context.readings if holder is not None else ():
        kept: dict[int, tuple[int, ...]] = {}
        here = next(_kept_here(context, reading.tape), None) is not None
        for event in reading.tape.events if here else ():
            if isinstance(event, Hold) and event.holder == holder:
                before, kept[event.loop] = kept.get(event.loop, ()), event.nodes
                for node in _joining(reading.ledger, event.nodes, before):
                    place = code.statement_at(node.at.span)
                    if isinstance(place, ast.Assign) and isinstance(place.targets[0], ast.Subscript):
                        found[place] = None
    return list(found)


def _joining(ledger: Ledger, nodes: Iterable[int], before: Sequence[int]) -> Iterator[Node]:
    """Yield what was built since to make one graph of an earlier one and of something else."""
    for number in ledger.ancestry(nodes).keys() - ledger.ancestry(before).keys() if before else ():
        node = ledger.nodes.get(number)
        inputs = node.inputs if node is not None else ()
        leading = [not ledger.ancestry([source]).keys().isdisjoint(before) for source in inputs]
        if node is not None and any(leading) and not all(leading):
            yield node


def change_without_grad(context: Context) -> Iterator[Candidate]:
    """Make a change in place, `s.mul_(0.9).add_(0.1 * p)`, where nothing is recorded."""
    code = context.code
    statement = code.statement_at(context.place)
    call = expression_of(statement)
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
    for value, holder in _stored(statement, context):
        for read in (read for read in reads(value) if dotted(read) == holder):
            for change in appended(code, read, ".detach()"):
                yield Candidate(
                    f"Detach the old `{holder}`: {_NO_EARLIER}",
                    "Gradients reach this iteration's part only, no longer those of earlier iterations.",
                    [change],
                    fallback=True,
                )
    name = dotted(statement.targets[0] if isinstance(statement, ast.Assign) else statement.target) or "it"
    yield from _new_leaf(code, statement.value, name, "")


def _new_leaf(code: Code, value: ast.expr, name: str, group: str) -> Iterator[Candidate]:
    """Yield a store of a value without its graph, which requires grad again; without a group where nothing else has
    held.
    """
    for change in appended(code, value, ".detach().requires_grad_(True)"):
        title = f"Make `{name}` a new leaf each time: {_NO_EARLIER}"
        yield Candidate(title, _LEAF, [change], group=group, fallback=not group)


def _handed_over(code: Code, reading: Reading, stored: Span) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield what leads to a graph that a line stores among the arguments of the calls that led there."""
    ledger, bound = reading.ledger, dict[str, set[int]]()

    def leading(argument: ast.expr, kept: AbstractSet[int]) -> list[ast.expr]:
        parts = [read for read in reads(argument) if bound.get(dotted(read) or "", set()) & kept]
        built = (ledger.nodes[number].at.span for number in kept & ledger.nodes.keys())
        return [argument] if not parts and any(code.spans(argument, span) for span in built) else parts

    for event in reading.tape.events:
        if isinstance(event, Bind) and event.node is not None:
            bound.setdefault(event.name, set()).add(event.node)
        if isinstance(event, Hold) and (event.at.file, event.at.line) == (stored.file, stored.line):
            kept = ledger.ancestry(event.nodes).keys()
            calls = [call for call in map(code.expression_at, event.at.stack) if isinstance(call, ast.Call)]
            for called, argument in [(call, argument) for call in calls for argument in given_to(call)]:
                yield from ((called, part) for part in leading(argument, kept))


def detach_argument(context: Context) -> Iterator[Candidate]:
    """Yield where a helper stores what it was given: detach the argument at its call."""
    code = context.code
    given: dict[ast.Call, dict[ast.expr, None]] = {}
    for reading in context.readings:
        for call, part in _handed_over(code, reading, context.stored):
            given.setdefault(call, {})[part] = None
    learned, doubt = bool(given) and _learned_from(context), doubt_of_detaching(context)
    for call, parts in given.items():
        alone = not learned and only_kept(context, call, context.stored)
        changes = [(change, part) for part in parts for change in appended(code, part, ".detach()")]
        each = [[one] for one in changes]
        for several in [changes, *each] if len(changes) > 1 else each:
            names = join(f"`{_line(code.segment(part))}`" for _, part in several)
            title = f"Hand over {names} detached (line {call.lineno})"
            detached = [change for change, _ in several]
            effect = _SAME if alone else _HANDED
            yield Candidate(title, effect, detached, safe=alone, group="hand over", doubt=doubt)


def _line(text: str) -> str:
    """Return an expression's text on one line."""
    return " ".join(text.split())


def _differentiated(code: Code, statement: ast.stmt, holder: str) -> bool:
    """Return whether the function takes gradients with respect to a name: `grad(loss, x)`, `x.grad`."""
    function = code.function(statement)
    if any(node.attr == "grad" and dotted(node.value) == holder for node in of_kind(function, ast.Attribute)):
        return True
    calls = [node for node in of_kind(function, ast.Call) if last_part(node.func) == "grad"]
    inputs = [one for call in calls for one in call.args[1:2]]
    inputs += [keyword.value for call in calls if (keyword := passed(call, "inputs")) is not None]
    return any(dotted(read) == holder for value in inputs for read in reads(value))


def _stored(statement: ast.stmt, context: Context, everything: bool = False) -> list[tuple[ast.expr, str | None]]:
    """Return the expressions that a statement stores, with the name that holds them."""
    match statement:
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            return [(value, dotted(target))]
        case ast.Assign(targets=[target], value=value):
            pairs = [(part, dotted(name)) for name, part in stored_pairs(target, value)]
            return pairs if everything else _held_here(context, pairs) or pairs
    low, high = context.place.line, context.place.end_line
    calls = [node for node in of_kind(statement, ast.Call) if low <= last_line(node) and node.lineno <= high]
    return [put for call in calls for put in _put_by(call)]


def _held_here(context: Context, pairs: list[tuple[ast.expr, str | None]]) -> list[tuple[ast.expr, str | None]]:
    """Return those of some stored values that the tapes say are held at the finding."""
    held = {event.holder for event in context.events(Hold) if context.at_place(event.at)}
    return [(part, name) for part, name in pairs if name in held]


def _put_by(call: ast.Call) -> list[tuple[ast.expr, str | None]]:
    """Return what a call puts into a container, with the name of that: `losses.append(loss)`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in STORES and call.args:
        return [(call.args[-1], dotted(call.func.value))]
    return []


def _parts(context: Context, value: ast.expr, holder: str | None) -> list[ast.expr]:
    """Return the smallest expressions of a stored value that carry its graph: `val` of `val * n`."""
    match value:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [element for element in elements if _carries(context, element)] or elements
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
            return [part]
        case ast.Dict(values=values):
            return values
        case ast.BinOp() | ast.UnaryOp():
            others = (one for one in _operands(value) if holder not in (dotted(one), root_name(one)))
            carrying = [one for one in others if not isinstance(one, ast.Constant) and _carries(context, one)]
            return carrying if len(carrying) == 1 else [value]
    return [value]


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
    if any(event.node is not None and event.name in names for event in context.events(Bind)):
        return True
    lines = range(part.lineno, last_line(part) + 1)
    built = (event.at.span for event in context.events(Node) if event.at.line in lines)
    return any(context.code.expression_at(span) is part for span in built)


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
        nodes = [event for event in tape.events if isinstance(event, Node)]
        bound = {event.node for event in tape.events if isinstance(event, Bind) and event.name == name} - {None}
        bound |= {node.id for node in nodes if context.code.expression_at(node.at.span) is part}
        losses = {node.id for node in nodes if averages and ("loss" in node.op or "entropy" in node.op)}
        if bound and bound <= losses | _scalar_roots(context, tape):
            return True
    return False


def _scalar_roots(context: Context, tape: Tape) -> set[int | None]:
    """Return what a tape's backwards start from without a gradient: numbers."""
    backwards = [event for event in tape.events if isinstance(event, Backward) and event.call == "backward"]
    calls = [(backward, context.call_at(backward.at.span)) for backward in backwards]
    return {root.node for backward, call in calls if call is not None and not call.args for root in backward.roots}


def _unreduced(code: Code) -> bool:
    """Return whether some loss may be asked for one value per sample: `reduction="none"`."""
    asked = [node.value for node in of_kind(code.tree, ast.keyword) if node.arg in ("reduction", "reduce")]
    reduced = ("mean", "sum", "batchmean", True)
    return not all(isinstance(value, ast.Constant) and value.value in reduced for value in asked)


def _only_logged(code: Code, statement: ast.stmt, holder: str) -> bool:
    """Return whether a holder starts as a plain number and is only reckoned with, formatted or printed."""
    function = code.function(statement)
    scope = (code.owner(statement) or function) if holder.startswith("self.") else function
    if not _starts_as_number(scope, statement, holder):
        return False
    attribute = holder.rsplit(".", 1)[-1]
    whole = code.tree if holder != attribute else scope
    names = _made_of(whole, attribute)
    # `mean = total / n`, then `mean.item()`: a number has none of a tensor's methods.
    if any(_within(node.value, name) for name in names for node in of_kind(whole, ast.Attribute)):
        return False
    handed = (part for node in ast.walk(whole) if node is not statement for part in _handed_on(code, node))
    return not any(last_part(read) in names for part in handed for read in reads(part))


def _starts_as_number(scope: ast.AST, statement: ast.stmt, holder: str) -> bool:
    """Return whether a holder is set to numbers alone, but by a statement."""
    starts = [store for store in of_kind(scope, ast.Assign) if holder in map(dotted, _flat(store))]
    return bool(starts) and all(_is_number(store, holder) for store in starts if store is not statement)


def _handed_on(code: Code, node: ast.AST) -> Sequence[ast.expr]:
    """Return the parts of a node from which a value goes where it may have to be a tensor, or a number of torch's own
    precision.
    """
    match node:
        case ast.Call():
            return [] if _is_shown_by(code, node) else given_to(node)
        case ast.Compare() | ast.BinOp():
            return _computed_otherwise(code, node)
        case ast.AugAssign(op=ast.Div() | ast.FloorDiv() | ast.Mod()):
            return _computed_otherwise(code, node)
        case ast.Return(value=ast.expr() as value) | ast.Yield(value=ast.expr() as value):
            # The caller may want the tensor.
            return [value]
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values) | ast.Dict(values=values):
            # Under another name, or in a container, it may be read as a tensor.
            shown = isinstance(node, ast.expr) and _is_shown(code, node)
            return [] if shown else [value for value in values if is_read(value) or not hasattr(value, "ctx")]
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            return [value] if any(isinstance(target, ast.Subscript) for target in targets(node)) else []
    return []


def _computed_otherwise(code: Code, node: ast.Compare | ast.BinOp | ast.AugAssign) -> Sequence[ast.expr]:
    """Return the parts of a comparison or computation that gives something else for a number than for a tensor."""
    match node:
        case ast.Compare():
            # The sum of numbers is rounded otherwise than that of tensors: what is compared may come out otherwise.
            return [node]
        case ast.BinOp(op=ast.Div() | ast.FloorDiv() | ast.Mod()) if code.path(node.left) != "builtins.str":
            # By zero a number raises, where a tensor gives infinity.
            return [node.right] if _counts(code, node.right) else [node]
        case ast.AugAssign(target=target, value=value):
            return [value] if _counts(code, value) else [target, value]
        case ast.BinOp(op=ast.Pow(), left=base, right=power):
            return [power] if isinstance(power, ast.Constant) else [base, power]
    return []


def _counts(code: Code, value: ast.expr, names: int = 2) -> bool:
    """Return whether a number is no zero, as far as the text shows, unless nothing was added up either: a constant, a
    length, or what each round of a loop adds to. `names` are followed to what they are given.
    """
    if isinstance(value, ast.Constant):
        return bool(value.value)
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Mult)):
        both = [_counts(code, part, names) for part in (value.left, value.right)]
        return any(both) if isinstance(value.op, ast.Add) else all(both)
    if isinstance(value, ast.Call):
        return code.path(value.func) in ("builtins.len", "builtins.max")
    name = dotted(value)
    return name is not None and names > 0 and _is_counted(code, value, name, names)


def _is_counted(code: Code, value: ast.expr, name: str, names: int) -> bool:
    """Return whether a name or an attribute is given such numbers alone, or each round of a loop adds to it."""
    scope = code.function(value) if isinstance(value, ast.Name) else code.owner(value)
    stores = [one for one in of_kind(scope or code.tree, ast.stmt) if name in map(dotted, targets(one))]
    added = [one for one in stores if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add)]
    if added:
        return not any(_is_conditional(code, one) for one in added)
    given = [one.value for one in stores if isinstance(one, ast.Assign)]
    return bool(given) and all(_counts(code, one, names - 1) for one in given)


def _is_conditional(code: Code, node: ast.AST) -> bool:
    """Return whether something need not be run in each round of the loop around it."""
    return any(isinstance(parent, (ast.If, ast.Try)) for parent in _within_loop(code, node))


def _within_loop(code: Code, node: ast.AST) -> Iterator[ast.AST]:
    return takewhile(lambda one: not isinstance(one, (ast.For, ast.While)), code.parents(node))


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
        for store in (one for one in ast.walk(scope) if isinstance(one, (ast.Assign, ast.AnnAssign))):
            if store.value is not None and _within(store.value, known):
                made = set(map(last_part, store.targets if isinstance(store, ast.Assign) else [store.target]))
                names += sorted(made - {"", *names})
    return names


def _within(value: ast.expr, name: str) -> bool:
    """Return whether a value is another or is reckoned from it, by operators alone."""
    if isinstance(value, ast.BinOp):
        return _within(value.left, name) or _within(value.right, name)
    if isinstance(value, ast.UnaryOp):
        return _within(value.operand, name)
    if isinstance(value, ast.Call) and id_of(value.func) in ("float", "round"):
        return any(_within(part, name) for part in value.args)
    return last_part(value) == name


def _flat(store: ast.Assign) -> Iterator[ast.expr]:
    for target in store.targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


def _is_number(store: ast.Assign, holder: str) -> bool:
    pairs = stored_pairs(store.targets[0], store.value)
    value = next((part for name, part in pairs if dotted(name) == holder), store.value)
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) and value.value is not True


def _detached(code: Code, part: ast.expr) -> list[Change]:
    """`x` detached: a call behind another that only moves the tensor is put before it."""
    match part:
        case ast.Starred() | ast.Constant():
            return []
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [change for element in elements for change in _detached(code, element)]
        case ast.Call(func=ast.Attribute(value=moved, attr="cpu" | "cuda" | "clone"), args=[]) if dotted(moved):
            return appended(code, moved, ".detach()")
    return appended(code, part, ".detach()")


def _number(code: Code, part: ast.expr) -> str:
    text = _short(code, part)
    return f"{text[:-1]}.item()`" if text.endswith("`") else "`.item()`"


def _short(code: Code, part: ast.expr) -> str:
    text = _line(code.segment(part))
    text = rewrite.tried(rewrite.parenthesized, text) or text
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
    loop = code.statement_at(span)
    if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        for around in (loop, *code.loops(loop)):
            seen.append(around)
            yield around, "the loop" if around is loop else f"the loop on line {around.lineno}"
    calls = (call for event in context.events(Loop) if event.at.span == span for call in event.at.stack)
    for statement in filter(None, map(code.statement_at, calls)):
        if statement not in seen:
            seen.append(statement)
            yield statement, f"the call on line {statement.lineno}"


def _unwalked(readings: Iterable[Reading], code: Code, statement: ast.stmt) -> bool:
    """Return whether no backward, no unknown code and no caller can walk a graph that a statement records."""
    here, ran = code.span(statement), False
    for reading in readings:
        own = [node.id for node in reading.ledger.nodes.values() if lies_in(node.at, here)]
        if not own and not any(lies_in(loop.event.at, here) for loop in reading.loops.values()):
            continue
        # What a program that raises would have done next, or one beyond the work limit does, nobody has seen.
        ran = ran or reading.ended == "finished"
        if reading.ended not in ("finished", "raised") or not reading.noticed.isdisjoint(own):
            return False
        # What is handed to unknown code in there may be trained by it.
        escapes = (event.at for event in reading.tape.events if isinstance(event, (Escape, LeafEscape)))
        if any(lies_in(at, here) for at in (*(run.at for run in reading.runs), *escapes)):
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
