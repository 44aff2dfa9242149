"""A graph that was cut on the way: take the cut out."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context
from tapecheck.fixes.code import Code, assigned, dotted, last_part, targets
from tapecheck.fixes.edit import Change
from tapecheck.fixes.noticed import doubt_of_recording
from tapecheck.fixes.story import frames, lies_in
from tapecheck.fixes.uncut import only_torch_reads
from tapecheck.rules.backward_without_graph.rule import BackwardWithoutGraph
from tapecheck.rules.gradient_cut.facts import GradientCutFacts
from tapecheck.source.nodes import (
    attr_of,
    expression_of,
    id_of,
    is_docstring,
    is_literal,
    is_number,
    method_called,
    name_called,
    of_kind,
)
from tapecheck.tape import Backward, Cut, CutKind, Span, Tape

_COPYING = ("tensor", "as_tensor", "FloatTensor", "Tensor")
_NO_GRAD = ("no_grad", "inference_mode")
_WORDS: dict[CutKind, str] = {
    "detach": "`.detach()`", "data": "`.data`", "item": "`.item()`", "copy": "the copy by `torch.tensor`",
    "no_grad": "`no_grad`", "checkpoint": "the reentrant checkpoint", "numpy": "the way through numpy",
    "leaf": "the new leaf",
}  # fmt: skip


READ_ELSEWHERE = "Check what reads it: what is no op of torch may refuse a tensor with a graph, or show it otherwise."

_SWITCH = re.compile(r"\b(set_grad_enabled\(False\)|inference_mode|no_grad)")


def remove_cut(context: Context) -> Iterator[Candidate]:
    """Take out what cut the graph: one cut, or all on the way together."""
    facts = context.finding.facts
    if isinstance(facts, GradientCutFacts) and facts.how == "leaf":
        # What was made a leaf again cannot be one once it has a graph: more has to go than the cut.
        yield from _leaf_and_cut(context)
        return
    code, cuts = context.code, blamed_cuts(context)
    around = [frame for cut in cuts for frame in frames(cut.at)]
    choices = [ways_out(code, cut, around) for cut in cuts]
    raises = context.finding.code == BackwardWithoutGraph.code
    safe, effect = _kept_computing(context, cuts, choices), effect_of(raises)
    if safe and not _only_torch_reads(context, cuts):
        safe, effect = False, f"{effect} {READ_ELSEWHERE}"
    alone = [
        Candidate(_title(code, [cut], way), effect, way, safe and len(cuts) == 1, f"cut {cut.at.line}")
        for cut, ways in zip(cuts, choices, strict=True)
        for way in ways
    ]
    alone = [*_of_one_line(code, cuts, choices, effect), *alone]
    together = list(_all_taken_out(context, cuts, choices, safe, effect))
    # What is never trained for want of several ways is trained by any of them; a root without a graph may want all.
    yield from (*together, *alone) if raises else (*alone, *together)
    if len(cuts) == len(all_cuts(context)):
        for span, group in _told_places(context, cuts):
            for way in _ways_at(code, span):
                yield Candidate(f"Take the cut on line {span.line} out", effect, way, safe, group)


def _told_places(context: Context, cuts: list[Cut]) -> list[tuple[Span, str]]:
    """Return the places of the cuts that the finding names, with the group of their fixes, else its own."""
    places = [(label.span, f"cut {label.span.line}") for label in context.labels("cut")]
    return places if cuts else [*places, (context.finding.span, "")]


def _kept_computing(context: Context, cuts: list[Cut], choices: list[list[list[Change]]]) -> bool:
    """Return whether a program that ends with the exception computes the same where cuts go, until then and behind it.

    Where something else keeps the graph away as well, a frozen layer say, which of the two is meant nobody can tell.
    """
    computed = (_only_computed_with(context.code, cut.at.span) for cut in cuts)
    return context.stops and all(choices) and _inputs_seen(context) and all(computed)


def _only_torch_reads(context: Context, cuts: list[Cut]) -> bool:
    shown = all(cut.how in ("detach", "data", "no_grad") for cut in cuts)
    return only_torch_reads(context, [cut.at.span for cut in cuts], shown=shown)


def _leaf_and_cut(context: Context) -> Iterator[Candidate]:
    """Take out what cut the graph together with the `requires_grad_()` that has made a leaf of what is left."""
    code = context.code
    statement, made = code.statement_at(context.finding.span), code.expression_at(context.finding.span)
    gone: Change | None = None
    match made, statement:
        case ast.Call(func=ast.Attribute(attr="requires_grad_")), ast.Expr() if statement.value is made:
            gone = code.delete(statement)
        case ast.Call(func=ast.Attribute(value=value, attr="requires_grad_")), ast.stmt():
            gone = code.replace(made, code.segment(value))
        case _, ast.Assign(targets=[ast.Attribute(attr="requires_grad")]):
            gone = code.delete(statement)
    if gone is None:
        return
    cuts = [cut for cut in all_cuts(context) if cut.how != "leaf"]
    places = [frame for cut in cuts for frame in frames(cut.at)]
    for cut in cuts:
        for way in ways_out(code, cut, places):
            what, colon, effect = _title(code, [cut], way).partition(":")
            title = f"{what} and drop `requires_grad`{colon}{effect}"
            yield Candidate(title, effect_of(False), [*way, gone], group=f"cut {cut.at.line}")


def _all_taken_out(
    context: Context, cuts: list[Cut], choices: list[list[list[Change]]], safe: bool, effect: str
) -> Iterator[Candidate]:
    """Take all cuts out together, where each of them can be."""
    if not cuts or not all(choices):
        return
    raises = context.finding.code == BackwardWithoutGraph.code
    first = [change for ways in choices for change in ways[0]]
    # A number that is made a tensor again: the copy is no cut of a graph any more, but goes with it.
    together = [[*copied, *first] for copied in _copies_of_root(context)] if raises else []
    for pick in range(max(len(ways) for ways in choices)) if len(cuts) > 1 else ():
        together.append([change for ways in choices for change in ways[min(pick, len(ways) - 1)]])
    for combined in together:
        changes = list(dict.fromkeys(combined))
        yield Candidate(_title(context.code, cuts, changes), effect, changes, safe, "all cuts")


def _of_one_line(code: Code, cuts: list[Cut], choices: list[list[list[Change]]], effect: str) -> Iterator[Candidate]:
    """Take all cuts of a line out where it has several: with one of them left, a part would go on learning nothing."""
    for line in dict.fromkeys(cut.at.line for cut in cuts):
        here = [(cut, ways) for cut, ways in zip(cuts, choices, strict=True) if cut.at.line == line]
        if 1 < len(here) < len(cuts) and all(ways for _, ways in here):
            changes = list(dict.fromkeys(change for _, ways in here for change in ways[0]))
            yield Candidate(_title(code, [cut for cut, _ in here], changes), effect, changes, group=f"cut {line}")


def all_cuts(context: Context) -> list[Cut]:
    """Return the cuts of a finding on all paths, one for each place and kind."""
    found: dict[tuple[Span, str], Cut] = {}
    for tape in context.tapes:
        for cut in cuts_of_finding(context, tape):
            found.setdefault((cut.at.span, cut.how), cut)
    return list(found.values())


def blamed_cuts(context: Context) -> list[Cut]:
    """Return the cuts of a finding; of one at what has no gradient, those alone: what the program detaches beside it is
    meant.
    """
    cuts = all_cuts(context)
    here = [cut for cut in cuts if cut.at.span.line == context.finding.span.line]
    return here if here and all(cut.how == "nondifferentiable" for cut in here) else cuts


def _inputs_seen(context: Context) -> bool:
    """Return whether what the failing call differentiates by is seen to require grad, where it names that: torch asks
    for it as soon as there is a graph.
    """
    here = (one for one in context.events(Backward) if one.call == "grad" and one.at.span == context.place)
    return all(one.inputs is not None and not one.open for one in here)


def _only_computed_with(code: Code, span: Span) -> bool:
    """Return whether a value that was cut to a number is read where a tensor does as well: in arithmetic, in
    comparisons, in printed text, and as a tensor. What else takes a number may refuse a tensor, or one with a graph.
    """
    statement = code.statement_at(span)
    expression = code.expression_at(span)
    calls = [expression, *code.calls_in(span)]
    if not any(isinstance(one, ast.Call) and _makes_number(one) for one in calls):
        return True
    if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        # What a function gives is read by whoever calls it.
        return not isinstance(statement, ast.Return)
    names = {name for part in targets(statement) if (name := dotted(part)) is not None}
    reads = (node for name in names for node in code.loads(code.function(statement), name))
    return all(_computed_with(code, node) for node in reads if not isinstance(node, ast.Subscript))


def _makes_number(call: ast.Call) -> bool:
    return attr_of(call.func) in ("item", "numpy", "tolist") or id_of(call.func) in ("float", "int")


def _computed_with(code: Code, node: ast.expr) -> bool:
    parent = code.parent(node)
    if isinstance(parent, (ast.Attribute, ast.BinOp, ast.UnaryOp, ast.AugAssign, ast.Compare, ast.FormattedValue)):
        return True
    return isinstance(parent, ast.Call) and id_of(parent.func) in ("print", "float")


def switch_off_within(context: Context) -> Iterator[Candidate]:
    """Let a function that leaves recording off, an evaluation, switch it off for itself."""
    code = context.code
    places = [cut.off_at for tape in context.tapes for cut in cuts_of_finding(context, tape) if cut.off_at is not None]
    for statement in filter(None, map(code.statement_at, dict.fromkeys(places))):
        function = code.function(statement)
        if not isinstance(function, ast.FunctionDef) or not _only_evaluates(function, statement):
            continue
        torch, imported = code.torch()
        gone, decorated = code.delete(statement), code.insert_before(function, [f"@{torch}.no_grad()"])
        if gone is not None and decorated is not None:
            yield Candidate(
                f"Switch recording off within `{function.name}` alone: `@{torch}.no_grad()`",
                "Recording is on again after the call; what the function computes has no graph, as before.",
                [*imported, decorated, gone],
                context.stops,
                "switch",
                doubt=doubt_of_recording(context),
            )


def _only_evaluates(function: ast.FunctionDef, switch: ast.stmt) -> bool:
    """Return whether a decorator can stand for the statement of a function that switches recording off."""
    if function.decorator_list or switch not in function.body:
        return False
    if not all(map(_records_nothing, function.body[: function.body.index(switch)])):
        return False
    rest = [node for statement in function.body if statement is not switch for node in ast.walk(statement)]
    return not any(
        isinstance(node, (ast.Yield, ast.YieldFrom)) or attr_of(node) in ("backward", "set_grad_enabled")
        for node in rest
    )


def _records_nothing(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring or sets a module's mode."""
    match expression_of(statement):
        case ast.Call(func=ast.Attribute(attr="eval" | "train"), args=given):
            return not any(isinstance(one, ast.Call) for one in given)
    return is_docstring(statement)


def _copies_of_root(context: Context) -> list[list[Change]]:
    """Return the ways to take `torch.tensor(...)` out of what the root of the backward was assigned from."""
    code = context.code
    ways: list[list[Change]] = []
    for _, store in roots_stored(context):
        for node in of_kind(store, ast.Call):
            if last_part(node.func) in _COPYING:
                ways.extend(way for way in _ways_of(code, node) if way not in ways)
    return ways


def roots_stored(context: Context) -> Iterator[tuple[ast.Call, ast.stmt]]:
    """Yield the statements that store what a method is called on at the finding, each with that call."""
    code = context.code
    for call in code.calls_in(context.finding.span):
        name = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else None
        for store in code.stores(code.function(call), name) if name is not None else ():
            yield call, store


def effect_of(raises: bool) -> str:
    if raises:
        return "The loss keeps its graph, so that the backward has something to run over."
    return "Gradients reach the parameters before the cut, and their optimizer trains them from now on."


def _title(code: Code, cuts: list[Cut], changes: list[Change]) -> str:
    parts, lines = [], []
    for cut in cuts:
        line, word = cut.at.line, _WORDS.get(cut.how, "the cut")
        if cut.how == "no_grad" and changes:
            # The block or decorator that goes, not the op under it.
            first = min(changes, key=lambda change: change.start)
            line = code.index.place(first.start)[0]
            switch = _SWITCH.search(code.text, first.start, max(first.end, first.start))
            word = f"`{switch.group()}`" if switch is not None else word
            if code.text[first.start : first.end].isspace():
                parts.append(f"{word} from line {line} on")
                lines.append(line)
                continue
        elif cut.how in ("copy", "item") and isinstance(call := code.expression_at(cut.at.span), ast.Call):
            word = _called(code, cut.how, call.func)
        parts.append(f"{word} on line {line}")
        lines.append(line)
    if len(set(lines)) < len(lines):
        # What is made a leaf again on the line of its cut goes with that.
        parts = [part for part in parts if not part.startswith(f"{_WORDS['leaf']} ")] or parts
    return f"Take out {' and '.join(dict.fromkeys(parts))}: gradients flow again"


def _called(code: Code, how: CutKind, called: ast.expr) -> str:
    """Return a call that makes a copy or a number, by its name in the text."""
    if how == "copy":
        return f"the copy by `{code.segment(called)}`" if dotted(called) is not None else "the copy"
    return f"`.{called.attr}()`" if isinstance(called, ast.Attribute) else f"`{code.segment(called)}()`"


def cuts_of_finding(context: Context, tape: Tape) -> Iterator[Cut]:
    """Yield the cuts of a tape that the finding is about, those the value came through first."""
    known = {event.id: event for event in tape.events if isinstance(event, Cut)}
    of_root = context.finding.code == BackwardWithoutGraph.code
    wanted = _cuts_of_root(context, tape) if of_root else _cuts_here(context, known.values())
    while wanted:
        cut = known.pop(wanted.pop(0), None)
        if cut is not None:
            yield cut
            wanted.extend(cut.sources if of_root else ())


def _cuts_of_root(context: Context, tape: Tape) -> list[int]:
    """Return the cuts that the roots without a graph came through last."""
    roots = [root for other, backward in context.backwards_here() if other is tape for root in backward.roots]
    return [number for root in roots if root.graph != "yes" for number in root.cuts]


def _cuts_here(context: Context, cuts: Collection[Cut]) -> list[int]:
    """Return those of some cuts that happen at the finding, then those on a line that it names."""
    places = {label.span.line for label in context.labels("cut")}
    here = [cut.id for cut in cuts if lies_in(cut.at, context.finding.span)]
    return here + [cut.id for cut in cuts if cut.at.line in places]


def ways_out(code: Code, cut: Cut, places: Sequence[Span] = ()) -> list[list[Change]]:
    """Return the ways to take one cut out, likeliest first; each is a set of changes.

    `places` are those of all the cuts that are to go: what comes before them in a `with` of `no_grad` stays in it.
    """
    if cut.how == "no_grad":
        return [way for frame in frames(cut.at) for way in _out_of_no_grad(code, frame, places)]
    return _ways_at(code, cut.at.span)


def _ways_at(code: Code, span: Span) -> list[list[Change]]:
    exact = code.expression_at(span)
    data = (node for node in code.within(span, ast.Attribute) if node.attr == "data")
    nodes = dict.fromkeys([*([exact] if exact is not None else ()), *code.calls_in(span), *data])
    return [*(way for node in nodes for way in _ways_of(code, node)), *_out_of_no_grad(code, span)]


def _ways_of(code: Code, node: ast.expr) -> list[list[Change]]:
    text = code.segment(node)
    try:
        if attr_of(node) == "data":
            return [[code.replace(node, _fitting(code, node, rewrite.receiver(text)))]]
        if not isinstance(node, ast.Call):
            return []
        if method_called(node) in ("detach", "detach_", "item") and not node.args:
            return [_without_call(code, node, rewrite.receiver(text))]
        called = dotted(node.func) or ""
        last = called.rsplit(".", 1)[-1]
        if (called in ("float", "torch.detach") or last in ("Parameter", "Variable")) and len(node.args) == 1:
            return [_without_call(code, node, rewrite.only_argument(text))]
        if last in _COPYING and node.args:
            return _copies(code, node, text, called)
        if last == "checkpoint":
            return [[code.replace(node, rewrite.with_argument(text, "use_reentrant", "False"))]]
    except rewrite.RewriteError:
        pass
    return []


def is_copying(called: str) -> bool:
    """Return whether a function makes a new tensor of a value: `torch.tensor` and the like."""
    return called.rsplit(".", 1)[-1] in _COPYING


def is_list(code: Code, value: ast.expr) -> bool:
    """Return whether the text says that a name holds a list."""
    stores = code.stores(code.function(value), value.id) if isinstance(value, ast.Name) else ()
    held = (made for store in stores for target, made in assigned(store) if dotted(target) == dotted(value))
    return any(isinstance(made, (ast.List, ast.ListComp)) or name_called(made) == "list" for made in held)


def _copies(code: Code, node: ast.Call, text: str, called: str) -> list[list[Change]]:
    """Rewrite `torch.tensor(loss)` to `loss`, `torch.tensor(losses)` to `torch.stack(losses)`."""
    plain = _without_call(code, node, rewrite.only_argument(text))
    prefix = called.rpartition(".")[0]
    torch = f"{prefix}." if prefix else f"{code.torch()[0]}."
    value = node.args[0]
    parts = _parts_to_stack(code, value, torch) or rewrite.only_argument(text)
    stacked = [code.replace(node, f"{torch}stack({parts})")]
    if isinstance(value, (ast.List, ast.ListComp, ast.Tuple)):
        return [stacked]
    # A method of the result is one that a list has not: then the argument is a tensor or must be made one.
    parent = code.parent(node)
    if is_list(code, value):
        return [stacked]
    if isinstance(parent, ast.Attribute) and isinstance(value, ast.Name) and value.id.endswith("es"):
        return [stacked, plain]
    return [plain, stacked] if isinstance(value, ast.Name) else [plain]


def _parts_to_stack(code: Code, value: ast.expr, torch: str) -> str | None:
    """Return `[0.0, x]` with its numbers made tensors like the others, as only those can be stacked; None where it has
    none.
    """
    elements = value.elts if isinstance(value, (ast.List, ast.Tuple)) else []
    if not any(map(is_number, elements)):
        return None
    plain = (one for one in elements if not is_number(one) and not of_kind(one, ast.Call))
    like = next((f"full_like({code.segment(one)}, " for one in plain), "tensor(")
    texts = (f"{torch}{like}{code.segment(one)})" if is_number(one) else code.segment(one) for one in elements)
    return f"[{', '.join(texts)}]"


def _fitting(code: Code, node: ast.expr, text: str) -> str:
    """Return the text that takes a node's place, in parentheses where it is an operand of something."""
    return text if stands_free(code, node) else rewrite.parenthesized(text)


def stands_free(code: Code, node: ast.expr) -> bool:
    """Return whether any expression can take a node's place without parentheses."""
    parent = code.parent(node)
    if isinstance(parent, ast.Call):
        return parent.func is not node
    return isinstance(parent, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.keyword, ast.Expr))


def _without_call(code: Code, node: ast.Call, receiver: str) -> list[Change]:
    """Rewrite `x.detach()` to `x`; where only `x = x` would be left, the whole statement goes."""
    statement = code.statement(node)
    useless = expression_of(statement) is node
    if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1:
        useless = dotted(statement.targets[0]) == receiver
    removed = code.delete(statement) if useless and statement is not None else None
    return [removed or code.replace(node, _fitting(code, node, receiver))]


def _out_of_no_grad(code: Code, span: Span, places: Sequence[Span] = ()) -> list[list[Change]]:
    """Take away the `with torch.no_grad():` around a place, or the decorator of its function or of one it calls."""
    ways: list[list[Change]] = []
    statement = code.statement_at(span)
    if statement is None:
        return ways
    for around in [statement, *code.parents(statement)]:
        if isinstance(around, (ast.With, ast.AsyncWith)):
            ways.extend(_ended_before(code, around, places))
            ways.extend(_without_item(code, around))
        if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
            ways.extend(_undecorated(code, around))
            break
    for expression in of_kind(code.tree, ast.Expr):
        # `torch.set_grad_enabled(False)` as a statement holds until it is undone.
        switches = isinstance(expression.value, ast.Call) and is_no_grad(expression.value)
        removed = code.delete(expression) if switches else None
        if removed is not None:
            ways.append([removed])
    called = set(map(name_called, code.within(span, ast.Call)))
    for node in ast.walk(code.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in called:
            ways.extend(_undecorated(code, node))
    return ways


def _ended_before(code: Code, statement: ast.With | ast.AsyncWith, places: Sequence[Span]) -> Iterator[list[Change]]:
    """Yield a `with torch.no_grad():` that ends in front of the first statement at one of the places."""
    if len(statement.items) == 1 and is_no_grad(statement.items[0].context_expr):
        found = (code.statement_at(span) for span in places)
        cut = [one for one in found if one is not None]
        first = next((child for child in statement.body if any(code.inside(one, child) for one in cut)), None)
        if first is not None and (changes := code.end_before(statement, first)):
            yield changes


def _without_item(code: Code, statement: ast.With | ast.AsyncWith) -> Iterator[list[Change]]:
    """Yield a `with` without its `torch.no_grad()`, or its body where there is nothing else."""
    for item in statement.items:
        changes = code.without_item(statement, item) if is_no_grad(item.context_expr) else None
        if changes is not None:
            yield changes


def _undecorated(code: Code, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[list[Change]]:
    for decorator in function.decorator_list:
        if is_no_grad(decorator):
            change = code.remove_decorator(decorator)
            if change is not None:
                yield [change]


def is_under_no_grad(code: Code, statement: ast.stmt) -> bool:
    """Return whether a `with` around a statement switches recording off."""
    around = (one for one in code.parents(statement) if isinstance(one, ast.With))
    return any(is_no_grad(item.context_expr) for one in around for item in one.items)


def is_no_grad(node: ast.expr) -> bool:
    """Return whether an expression, as a `with` or a decorator has it, switches recording off."""
    if isinstance(node, ast.Call):
        if any(is_literal(arg, False) for arg in node.args):
            return last_part(node.func) == "set_grad_enabled"
        node = node.func
    return last_part(node) in _NO_GRAD
