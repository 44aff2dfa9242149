"""The arguments of a backward or grad call: retain_graph, create_graph, and what is left in `.grad` afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tapecheck.fixes import rewrite
from tapecheck.fixes.candidate import Candidate, Context, remove_argument, retain_position
from tapecheck.fixes.code import Code, dotted, walk
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import frames
from tapecheck.fixes.strategies.carried import after_backward
from tapecheck.rules.create_graph_cycle.rule import CreateGraphCycle
from tapecheck.tape import Backward, Bind, Cut, Escape, GradientCleared, Leaf, Optimizer, Span, Step, Tape
from tapecheck.tape.tape import replay

_CREATE_POSITION = 4
_LEARNED = (
    "The term now changes what is learned: its own gradient reaches the parameters. "
    "The graph of the gradient is built too, which costs memory and time."
)


def _is_written(code: Code, call: ast.Call, position: int | None) -> bool:
    """Return whether a call says itself that the graph is retained: what a function was asked for, others may need."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "retain_graph"]
    if not values and position is not None and len(call.args) > position:
        values = [call.args[position]]
    function = code.function(call)
    asked = {one.arg for one in ast.walk(getattr(function, "args", ast.Pass())) if isinstance(one, ast.arg)}
    return not any(isinstance(node, ast.Name) and node.id in asked for value in values for node in ast.walk(value))


def drop_retain(context: Context) -> Iterator[Candidate]:
    """Take the needless `retain_graph` away."""
    code = context.code
    effect = "The gradients are the same; the graph is freed by this backward instead of later."
    title = "Drop `retain_graph`: nothing runs over this graph again"
    seen: set[ast.Call] = set()
    for _, backward in context.backwards_here():
        for frame in frames(backward.at):
            call = context.call_at(frame)
            if call is None or call in seen:
                continue
            seen.add(call)
            position = retain_position(call) if frame == backward.at.span else None
            change = remove_argument(code, call, "retain_graph", position)
            if change is not None:
                yield Candidate(title, effect, [change], safe=_is_written(code, call, position))
    for call in code.calls_in(context.finding.span):
        change = remove_argument(code, call, "retain_graph")
        if change is not None:
            yield Candidate(title, effect, [change], safe=_is_written(code, call, None))
    for _, backward in context.backwards_here():
        call = context.call_at(backward.at.span)
        place = retain_position(call) if call is not None else None
        if call is not None and place is not None and len(call.args) > place + 1:
            # What stands behind it would move up into its place.
            given = code.replace(call.args[place], "False")
            passed = "Pass `False` for `retain_graph`: nothing runs over this graph again"
            yield Candidate(passed, effect, [given], safe=_is_written(code, call, place))
    for node in code.source.nodes_near("retain_graph"):
        # `options = {"retain_graph": True}`, handed over by `**options`.
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "retain_graph":
                    off = code.replace(value, "False")
                    off_title = f"Set `retain_graph` to `False` (line {key.lineno}): nothing runs over this graph again"
                    yield Candidate(off_title, effect, [off], safe=True)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            change = remove_argument(code, node, "retain_graph")
            if change is not None:
                gone = f"Drop `retain_graph` (line {node.lineno}): nothing runs over this graph again"
                yield Candidate(gone, effect, [change], safe=True)


def create_graph(context: Context) -> Iterator[Candidate]:
    """Put `create_graph=True` in the grad call whose result goes into the loss, or in all on the way to it."""
    code = context.code
    calls: list[ast.Call] = []
    changes: list[Change] = []
    for call in _grad_calls(context):
        change = _with_create_graph(code, call)
        if change is None:
            continue
        calls.append(call)
        changes.append(change)
        yield Candidate(
            f"Take the gradient on line {call.lineno} with `create_graph=True`: it is then learned from",
            _LEARNED,
            [change],
            group="create",
        )
    # A derivative of a derivative: each of them needs a graph.
    statement = code.statement_at(context.finding.span)
    if statement is not None:
        for node in walk(code.function(statement)):
            if isinstance(node, ast.Call) and (dotted(node.func) or "").rsplit(".", 1)[-1] == "grad":
                change = _with_create_graph(code, node) if node not in calls else None
                if change is not None and node.lineno <= (statement.end_lineno or 0):
                    calls.append(node)
                    changes.append(change)
    if len(calls) > 1:
        lines = ", ".join(map(str, sorted({call.lineno for call in calls})))
        yield Candidate(
            f"Take the gradients on lines {lines} with `create_graph=True`: they are then learned from",
            _LEARNED,
            changes,
            group="create",
        )


def _with_create_graph(code: Code, call: ast.Call) -> Change | None:
    if any(keyword.arg is None for keyword in call.keywords) and _passes_retain(call) is None:
        return None
    text = code.segment(call)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    position = _CREATE_POSITION if name == "grad" else None
    try:
        new = rewrite.with_argument(text, "create_graph", "True", position=position, replacing=("retain_graph",))
        if new != text and rewrite.argument(new, "retain_graph") == "True":
            # create_graph keeps the graph already: beside it retain_graph=True says nothing.
            new = rewrite.without_argument(new, "retain_graph")
    except rewrite.RewriteError:
        return None
    return code.replace(call, new) if new != text else None


def drop_create(context: Context) -> Iterator[Candidate]:
    """Take `create_graph=True` away where nothing reads the gradients but the optimizer."""
    code = context.code
    reads = [
        node
        for node in ast.walk(code.tree)
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load)
        and _clearing(code, node) is None and not _is_module(code, node)
    ]  # fmt: skip
    if reads:
        return
    for tape, backward in context.backwards_here():
        # An optimizer of unknown code may differentiate the gradients itself.
        known = any(isinstance(event, Step) for event in tape.events)
        unseen = any(isinstance(event, Escape) for event in tape.events)
        for frame in frames(backward.at):
            call = context.call_at(frame)
            change = remove_argument(code, call, "create_graph", 2) if call is not None else None
            if change is not None:
                yield Candidate(
                    "Drop `create_graph=True`: nothing differentiates these gradients",
                    "The gradients are the same; no graph of them is built, which also saves memory and time.",
                    [change],
                    safe=known and not unseen,
                    group="drop",
                )


def take_gradient(context: Context) -> Iterator[Candidate]:
    """Rewrite `loss.backward(create_graph=True)` and `x.grad` to a gradient taken by `torch.autograd.grad`."""
    code = context.code
    spans = [frame for _, backward in context.backwards_here() for frame in frames(backward.at)]
    if context.finding.code != CreateGraphCycle.code:
        spans = [label.span for label in context.labels("cut")]
    for span in dict.fromkeys(spans):
        call = context.call_at(span)
        statement = code.statement(call) if call is not None else None
        if call is None or not isinstance(statement, ast.Expr) or statement.value is not call:
            continue
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward":
            continue
        if any(keyword.arg not in ("gradient", "retain_graph", "create_graph") for keyword in call.keywords):
            continue
        changes = _taken(code, statement, call)
        if changes:
            yield Candidate(
                "Take the gradient with `torch.autograd.grad(..., create_graph=True)`: no `.grad` gets it",
                "The gradient is a value of its own, which no parameter refers to; what this call added to the "
                "`.grad` of all parameters is no longer added.",
                changes,
                group="take",
            )


def _is_module(code: Code, node: ast.Attribute) -> bool:
    return (dotted(node) or "").endswith("autograd.grad") or (dotted(node) or "").split(".")[0] in code.imported()


def _clearing(code: Code, node: ast.Attribute) -> ast.stmt | None:
    """Return the statement `x.grad.zero_()` or `x.grad.data.zero_()` that a `.grad` stands in."""
    statement = code.statement(node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "zero_":
        return statement
    return None


def _taken(code: Code, statement: ast.stmt, call: ast.Call) -> list[Change]:
    """Return the changes that make a backward a grad call and every `.grad` behind it the gradient; none where one of
    them is more than read.
    """
    assert isinstance(call.func, ast.Attribute)
    function = code.function(statement)
    every = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "grad" and code.start(node) > code.end(statement)
        and not _is_module(code, node)
    ]  # fmt: skip
    torch, needed = code.torch()
    changes: list[Change] = list(needed)
    wanted: dict[str, str] = {}
    groups: dict[str, str] = {}
    for node in every:
        clearing = _clearing(code, node)
        other = code.statement(node)
        if clearing is None and not isinstance(node.ctx, ast.Load):
            clearing = other if isinstance(other, ast.Assign) and isinstance(other.value, ast.Constant) else None
            if clearing is None:
                return []
        if clearing is not None:
            removed = code.delete(clearing)
            if removed is None:
                return []
            changes.append(removed)
            continue
        owner = dotted(node.value)
        if owner is None:
            return []
        binder = _binder(code, node) if isinstance(node.value, ast.Name) else None
        if binder is not None:
            iterable, scope = binder
            # The loop's name must stand for nothing but the owner of the gradient.
            alone = all(
                isinstance(code.parent(name), ast.Attribute) and getattr(code.parent(name), "attr", "") == "grad"
                for name in code.loads(scope, owner)
            )
            if not alone or not isinstance(iterable, (ast.Call, ast.Name)):
                return []
            text = _known_before(code, statement, iterable)
            if text is None:
                return []
            if text not in groups:
                name = next(free for free in ("grads", "gradients", "all_grads") if not code.named(function, free))
                groups[text] = name
            changes += [code.replace(node, owner), code.replace(iterable, groups[text])]
        else:
            if owner not in wanted:
                wanted[owner] = f"{owner.rsplit('.', 1)[-1]}_grad"
                if not wanted[owner].isidentifier() or code.named(function, wanted[owner]):
                    return []
            changes.append(code.replace(node, wanted[owner]))
    if bool(wanted) == bool(groups) or len(groups) > 1:
        return []
    arguments = [code.segment(call.func.value)]
    if wanted:
        owners = list(wanted)
        arguments.append(owners[0] if len(owners) == 1 else f"[{', '.join(owners)}]")
    else:
        owners_text = next(iter(groups))
        arguments.append(owners_text if owners_text.startswith("list(") else f"list({owners_text})")
    given = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "gradient"), None)
    if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
        arguments.append(f"grad_outputs={code.segment(given)}")
    text = f"{torch}.autograd.grad({', '.join(arguments)}, create_graph=True)"
    names = list(wanted.values()) or list(groups.values())
    single = len(wanted) == 1
    changes.append(code.replace(statement, f"{', '.join(names)} = {text}{'[0]' if single else ''}"))
    return list(dict.fromkeys(changes))


def _known_before(code: Code, statement: ast.stmt, iterable: ast.Call | ast.Name) -> str | None:
    """Return what is run over, in words that mean the same before a statement: a name set behind it by what it is set
    to.
    """
    if isinstance(iterable, ast.Call):
        return code.segment(iterable)
    stores = code.stores(code.function(statement), iterable.id)
    if all(store.lineno < statement.lineno for store in stores):
        return iterable.id
    only = stores[0] if len(stores) == 1 else None
    if isinstance(only, ast.Assign) and isinstance(only.value, ast.Call) and "parameters()" in code.segment(only.value):
        return code.segment(only.value)
    return None


def _binder(code: Code, node: ast.Attribute) -> tuple[ast.expr, ast.AST] | None:
    """Return the `for` that binds the name before a `.grad`: what it runs over, and where the name is seen."""
    assert isinstance(node.value, ast.Name)
    for parent in code.parents(node):
        loops: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            loops = [(generator.target, generator.iter) for generator in parent.generators]
        elif isinstance(parent, ast.For):
            loops = [(parent.target, parent.iter)]
        elif isinstance(parent, (ast.FunctionDef, ast.Lambda)):
            return None
        for target, iterable in loops:
            if isinstance(target, ast.Name) and target.id == node.value.id:
                return iterable, parent
            if any(isinstance(part, ast.Name) and part.id == node.value.id for part in ast.walk(target)):
                # `for p, v in zip(params, vs)`: what stands for it among the arguments.
                zipped = isinstance(iterable, ast.Call) and dotted(iterable.func) == "zip"
                names = [dotted(part) for part in target.elts] if isinstance(target, ast.Tuple) else []
                if zipped and isinstance(iterable, ast.Call) and node.value.id in names:
                    place = names.index(node.value.id)
                    if place < len(iterable.args) and not isinstance(iterable.args[place], ast.Starred):
                        return iterable.args[place], parent
                return node, parent
    return None


def _passes_retain(call: ast.Call) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg in ("retain_graph", "create_graph")), None)


def _grad_calls(context: Context) -> list[ast.Call]:
    """Return the calls that took the gradient without a graph, or handed keywords to what took it; likeliest first."""
    code = context.code
    spans: list[Span] = []
    for tape in context.tapes:
        cuts = {event.id: event for event in tape.events if isinstance(event, Cut)}
        labelled = {label.span.line for label in context.labels("cut", "built", "path")}
        for other, backward in context.backwards_here():
            if other is tape:
                for root in backward.roots:
                    for number in (*root.constant_terms, *root.cuts):
                        cut = cuts.get(number)
                        if cut is not None and cut.how == "grad":
                            spans.extend(frames(cut.at))
        for cut in cuts.values():
            if cut.how == "grad" and any(frame.line in labelled for frame in frames(cut.at)):
                spans.extend(frames(cut.at))
    for label in context.labels("cut", "built", "path"):
        spans.append(label.span)
    calls: list[ast.Call] = []
    for span in spans:
        inside = list(code.calls_in(span))
        for call in inside:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if call not in calls and (name == "grad" or _passes_retain(call) is not None):
                calls.append(call)
    # Nothing on the tapes: the gradients taken in the function of the finding.
    statement = code.statement_at(context.finding.span)
    if not calls and statement is not None:
        for node in walk(code.function(statement)):
            if isinstance(node, ast.Call) and (dotted(node.func) or "").rsplit(".", 1)[-1] == "grad":
                calls.append(node)
    return calls


def clear_gradients(context: Context) -> Iterator[Candidate]:
    """Drop the gradients that hold the graph once they have been used: `p.grad = None`."""
    code = context.code
    for tape, backward in context.backwards_here():
        leaves = _left_over(tape, backward)
        if not leaves:
            continue
        for frame in frames(backward.at):
            statement = code.statement_at(frame)
            if statement is None:
                continue
            lines = _clearing_lines(code, statement, leaves, _names(tape))
            place = _last_use(code, statement, backward)
            if not lines or place is None:
                continue
            last, before = place
            change = code.insert_before(last, lines) if before else code.insert_after(last, lines)
            if change is not None:
                safe = _dropped_anyway(tape, backward, {leaf.id for leaf in leaves})
                yield Candidate(
                    "Drop the gradients once they are used: `.grad = None`"
                    + ("" if safe else "; the next ones are not added to them any more"),
                    "The gradients are used as before; dropped afterwards, they let go of the graph.",
                    [change],
                    safe=safe,
                    group="clear",
                )
        break


def _dropped_anyway(tape: Tape, backward: Backward, leaves: set[int]) -> bool:
    """Return whether no later iteration adds to, or steps by, what this backward left in the gradients of these
    leaves.
    """
    ledger, _ = replay(tape)
    params = {event.id: set(event.params) for event in tape.events if isinstance(event, Optimizer)}
    for run in (event for event in tape.events if isinstance(event, Backward) and event.at.span == backward.at.span):
        open_leaves = leaves & ledger.traversals[run.id].executed.keys()
        passed = False
        for event in tape.events:
            if event is run:
                passed = True
            elif not passed:
                continue
            elif isinstance(event, GradientCleared):
                open_leaves.discard(event.leaf)
            elif isinstance(event, (Step, Backward)) and event.at.iteration != run.at.iteration:
                used = (
                    params.get(event.optimizer, set())
                    if isinstance(event, Step)
                    else ledger.traversals[event.id].executed.keys()
                )
                if open_leaves & used:
                    return False
    return True


def _left_over(tape: Tape, backward: Backward) -> list[Leaf]:
    """Return the leaves that still hold a gradient with a graph when the tape ends, or when its backward runs again."""
    ledger, _ = replay(tape)
    reached = ledger.traversals[backward.id].executed
    cleared = set()
    passed = False
    for event in tape.events:
        if event is backward:
            passed = True
        elif passed and isinstance(event, GradientCleared) and event.to_none == "yes":
            cleared.add(event.leaf)
    left = [leaf for number, leaf in ledger.leaves.items() if number in reached and number not in cleared]
    return left or [leaf for number, leaf in ledger.leaves.items() if number in reached]


def _names(tape: Tape) -> dict[int, list[str]]:
    """Return the names that leaves were bound to."""
    names: dict[int, list[str]] = {}
    for event in tape.events:
        if isinstance(event, Bind) and event.node is not None:
            names.setdefault(event.node, []).append(event.name)
    return names


def _clearing_lines(code: Code, statement: ast.stmt, leaves: list[Leaf], names: dict[int, list[str]]) -> list[str]:
    function = code.function(statement)
    lines: list[str] = []
    parameters = [leaf for leaf in leaves if leaf.parameter]
    others = [leaf for leaf in leaves if not leaf.parameter]
    for leaf in others:
        for name in [leaf.name, *names.get(leaf.id, ())]:
            line = f"{name}.grad = None"
            if name and any(dotted(node) == name for node in walk(function)):
                if line not in lines:
                    lines.append(line)
                break
    if parameters:
        lines.extend(_clear_parameters(code, function))
    return lines


def _clear_parameters(code: Code, function: ast.AST) -> list[str]:
    """`model.zero_grad()` for the modules whose parameters the function asks for, or else an optimizer's."""
    lines: list[str] = []
    for node in walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = dotted(node.func.value)
        if owner is None:
            continue
        if node.func.attr == "parameters":
            line = f"{owner}.zero_grad(set_to_none=True)"
            if line not in lines:
                lines.append(line)
    if lines:
        return lines
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "zero_grad":
            owner = dotted(node.func.value)
            if owner is not None:
                return [f"{owner}.zero_grad(set_to_none=True)"]
    return []


def _last_use(code: Code, statement: ast.stmt, backward: Backward) -> tuple[ast.stmt, bool] | None:
    """Return where gradients are used no more in the block of a backward: behind its last statement that may use them,
    or before the return that ends it. None where the function reads them behind the block, or hands them out.
    """
    block = code.block(statement)
    last = block[-1]
    leaves = isinstance(last, (ast.Return, ast.Continue, ast.Break, ast.Raise))
    for node in walk(code.function(statement)):
        if isinstance(node, ast.Attribute) and node.attr == "grad" and isinstance(node.ctx, ast.Load):
            if node.lineno > (last.lineno - 1 if leaves else last.end_lineno or last.lineno):
                return None
    if leaves:
        return last, True
    uses = [
        member
        for member in block[block.index(statement) :]
        if any(
            isinstance(node, ast.Attribute) and node.attr in ("grad", "step", "backward", "clip_grad_norm_")
            for node in ast.walk(member)
        )
    ]
    after = after_backward(code, backward, code.function(statement))
    found = uses[-1] if uses else after or statement
    return found, False
