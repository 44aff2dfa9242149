"""A saved tensor that was changed in place: change a copy, change it later, or save a copy."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Iterator, Sequence

from tapecheck.fixes import rewrite
from tapecheck.fixes.between import gradients_unseen, only_backward
from tapecheck.fixes.candidate import Candidate, Context, Strategy, append, appended, remove_argument
from tapecheck.fixes.code import Code, dotted, last_part, root_name, targets
from tapecheck.fixes.edit import Change
from tapecheck.fixes.holders import held_alone, keeps_type, replaced_alone
from tapecheck.fixes.hooks import runs_in_backward
from tapecheck.fixes.story import Collision, frames, reads
from tapecheck.fixes.strategies.arguments import with_keyword
from tapecheck.fixes.strategies.carried import detach_carried
from tapecheck.fixes.strategies.copied import read_copies, write_into_copy
from tapecheck.fixes.strategies.shared import detach_shared, forward_again, step_once
from tapecheck.rules.stale_saved_tensor.facts import StaleSavedTensorFacts
from tapecheck.rules.stale_saved_tensor.rule import ONLY_IN_PLACE
from tapecheck.rules.words import join
from tapecheck.source.nodes import (
    expression_of,
    id_of,
    is_literal,
    is_read,
    last_name,
    method_called,
    of_kind,
    passed,
    written_argument,
)
from tapecheck.tape import InPlace, Node, Optimizer, Saved, Wrapper

_SAME = "The values are the same; the saved tensor is left as it was, so the backward can use it."
_OTHERS = (
    "The saved tensor is left as it was. Check what else holds it: that no longer sees the change. And check the types "
    "of what is combined: a new tensor gets the wider one."
)
_LATER = "The backward sees the values that the forward pass worked with; the change is made right after it."
_MEANWHILE = "Check that nothing in between reads what is changed, or changes what it is computed from."
_BOTH = "; the step also uses the gradients of the second one."
_COPY = "The op saves the copy, which nothing changes: values and gradients are those of the original."
_RESULT = "The op has saved its own result, which nothing changes now: values and gradients are those of the original."
_OWN_BUFFERS = "Each process keeps the buffers of its own batches: running averages of BatchNorm are not rank 0's."
_INPLACE_POSITIONS = {"ReLU": 0, "ReLU6": 0, "LeakyReLU": 1, "ELU": 1, "Dropout": 1, "SiLU": 0, "relu": 1, "dropout": 3}


def no_broadcast(context: Context) -> Iterator[Candidate]:
    """Pass `broadcast_buffers=False` where models are wrapped, if it is such a broadcast that changed a buffer."""
    facts = context.finding.facts
    if not isinstance(facts, StaleSavedTensorFacts) or not facts.broadcast:
        return
    wrapped = {event.at.span for event in context.events(Wrapper)}
    for span in sorted(wrapped, key=lambda span: span.line):
        changes = with_keyword(context, [span], "broadcast_buffers", "False")
        if changes:
            yield Candidate("Wrap with `broadcast_buffers=False`", _OWN_BUFFERS, changes)


def out_of_place(context: Context) -> Iterator[Candidate]:
    """Rewrite `x += y` to `x = x + y`, `x.relu_()` to `x = x.relu()`, `inplace=True` away."""
    for change in _changes(context):
        yield from _in_its_place(context, change)
        yield from _modules_out_of_place(context, change)


def _in_its_place(context: Context, change: InPlace) -> Iterator[Candidate]:
    """Yield the statements of a change as those that make a new tensor."""
    code = context.code
    for frame in frames(change.at):
        statement = code.statement_at(frame)
        if isinstance(statement, ast.AugAssign) and _takes_the_place(code, change, statement, statement.target):
            new = code.rewritten(statement, rewrite.out_of_place)
            if new is None:
                continue
            alone = held_alone(context, statement, statement.target) and keeps_type(context, statement)
            title = f"Compute `{code.segment(statement.target)}` out of place"
            yield _new_tensor(context, title, [new], alone)
        call = context.call_at(frame)
        if call is not None:
            yield from _call_out_of_place(context, change, call)


def all_out_of_place(context: Context) -> Iterator[Candidate]:
    """Rewrite every change that spoils what the backward needs, where one alone leaves others."""
    for collision in context.collisions:
        found: dict[ast.stmt | None, Candidate] = {}
        for change in _spoiling(collision):
            statement = context.code.statement_at(change.at.span)
            if statement not in found and (one := next(_in_its_place(context, change), None)) is not None:
                found[statement] = one
        if len(found) > 1:
            lines = join([str(line) for line in sorted(one.lineno for one in found if one is not None)])
            changes = [change for one in found.values() for change in one.changes]
            safe = all(one.safe for one in found.values())
            yield Candidate(
                f"Compute what lines {lines} change out of place",
                _SAME if safe else _OTHERS,
                changes,
                safe,
                fallback=True,
            )


def _spoiling(collision: Collision) -> list[InPlace]:
    """Return the changes, in order, of what the nodes that a backward comes to have saved before them."""
    changes = collision.ledger.changes
    found = {
        change: None
        for node in collision.walked
        for saved in node.saved
        for change in changes.get(saved.storage, [])[saved.version :]
        if change.optimizer is None
    }
    return sorted(found, key=lambda change: change.at.line)


def _new_tensor(context: Context, title: str, changes: list[Change], alone: bool) -> Candidate:
    """Return a candidate by which nothing is changed; `alone` says that nothing else reads what was changed."""
    return Candidate(title, _SAME if alone else _OTHERS, changes, safe=context.stops and alone)


def _changes(context: Context) -> list[InPlace]:
    changes = (collision.change for collision in context.collisions)
    return list(dict.fromkeys(one for one in changes if one is not None and one.optimizer is None))


def _takes_the_place(code: Code, change: InPlace, statement: ast.stmt, target: ast.expr) -> bool:
    """Return whether a new tensor under the name of the changed one reaches those who read the change.

    The name of a loop over parameters is not read again, and an optimizer keeps stepping the leaf that it was given.
    """
    if change.leaf is not None:
        return False
    if not isinstance(target, ast.Name):
        return True
    end, loads = code.end(statement), code.loads(code.function(statement), target.id)
    # A name that no loop binds anew is read again in the next iteration.
    around = itertools.takewhile(
        lambda loop: all(dotted(name) != target.id for name in targets(loop)), code.loops(statement)
    )
    start = min((code.start(loop) for loop in around), default=end)
    return any(code.start(load) >= end or start <= code.start(load) for load in loads)


def _call_out_of_place(context: Context, change: InPlace, call: ast.Call) -> Iterator[Candidate]:
    """Yield a call without its `inplace=True`, or `x.relu()` for `x.relu_()`."""
    code = context.code
    removed = remove_argument(code, call, "inplace", _inplace_position(call))
    statement = code.statement(call)
    if removed is not None and _is_true(call):
        alone = statement is not None and bool(call.args) and replaced_alone(context, statement, call.args[0])
        yield _new_tensor(context, f"Drop `inplace=True` (line {call.lineno})", [removed], alone)
    if statement is not None and method_called(call) not in ONLY_IN_PLACE:
        yield from _method_out_of_place(context, change, call, statement)


def _method_out_of_place(context: Context, change: InPlace, call: ast.Call, statement: ast.stmt) -> Iterator[Candidate]:
    """Yield `x = x.neg().add(1)` for the statement `x.neg_().add_(1)`, and `y = x.neg()` for `y = x.neg_()`."""
    code, chain = context.code, _chain(statement)
    text = _out_of_place(code, chain if call in chain else [call])
    first = chain[-1] if call in chain else call
    if text is None or not isinstance(first.func, ast.Attribute):
        return
    # `F.relu_(x)`: its argument is what changes.
    of_module = id_of(first.func.value) in code.imported()
    target = first.args[0] if of_module and first.args else first.func.value
    if call not in chain:
        alone = replaced_alone(context, statement, target) and keeps_type(context, call)
        title = f"Use `{first.func.attr.rstrip('_')}` instead of `{first.func.attr}`"
        changes = [code.replace(call, text)]
        if isinstance(target, ast.Name) and _takes_the_place(code, change, statement, target):
            changes = _named_first(code, statement, target, call, text)
        elif _read_beside(statement, target):
            changes = []
        if changes:
            yield _new_tensor(context, title, changes, alone)
    elif of_module and not first.args:
        return
    elif _is_assignable(target, of_module) and _takes_the_place(code, change, statement, target):
        name = code.segment(target)
        alone = held_alone(context, statement, target) and all(keeps_type(context, one) for one in chain)
        edit = code.replace(statement, f"{name} = {text}")
        yield _new_tensor(context, f"Compute `{name}` out of place", [edit], alone)


def _named_first(code: Code, statement: ast.stmt, target: ast.Name, call: ast.Call, text: str) -> list[Change]:
    """Return the edits that give a name the new tensor before a statement that works with it: what reads the name later
    sees the change as before. None where the statement reads it otherwise, or may leave the call out.
    """
    if isinstance(statement, ast.Assign) and [dotted(one) for one in statement.targets] == [target.id]:
        return [code.replace(call, text)]
    simple = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr))
    if not simple or sum(one.id == target.id for one in of_kind(statement, ast.Name)) != 1:
        return []
    if any(isinstance(one, _SOMETIMES) and code.inside(call, one) for one in ast.walk(statement)):
        return []
    inserted = code.insert_before(statement, [f"{target.id} = {text}"])
    return [inserted, code.replace(call, target.id)] if inserted is not None else []


def _read_beside(statement: ast.stmt, target: ast.expr) -> bool:
    """Return whether a statement that changes a tensor reads it once more: that sees what was changed."""
    name = dotted(target)
    return bool(name) and sum(dotted(one) == name for one in of_kind(statement, type(target))) > 1


_SOMETIMES = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions that may evaluate a part of them not at all, or more than once."""


def _chain(statement: ast.stmt) -> list[ast.Call]:
    """Return the in-place methods that a statement calls, each on what the next one returns, and nothing else."""
    chain: list[ast.Call] = []
    one = expression_of(statement)
    while isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and _is_in_place(one):
        chain.append(one)
        one = one.func.value
    return chain


def _is_in_place(call: ast.Call) -> bool:
    name = method_called(call)
    return name.endswith("_") and not name.endswith("__") and name not in ONLY_IN_PLACE


def _out_of_place(code: Code, chain: list[ast.Call]) -> str | None:
    """Return calls of methods, each on what the next one returns, as those that make new tensors; None for others."""
    if not all(map(_is_in_place, chain)):
        return None
    text, start = code.segment(chain[0]), code.start(chain[0])
    for call in chain:
        end = code.end(call.func) - start
        text = text[: end - 1] + text[end:]
    return text


def _is_assignable(target: ast.expr, given: bool) -> bool:
    """Return whether what is changed has a name that another tensor can get: one of its own where it is `given`."""
    return isinstance(target, ast.Name) or (isinstance(target, ast.Attribute) and not given and bool(root_name(target)))


def _modules_out_of_place(context: Context, change: InPlace) -> Iterator[Candidate]:
    """Rewrite `nn.ReLU(inplace=True)` to `nn.ReLU()`, near the change first."""
    code = context.code
    calls = [node for node in of_kind(code.tree, ast.Call) if _is_true(node)]
    owner = code.statement_at(change.at.span)
    scope = code.owner(owner) if owner is not None else None
    near = [call for call in calls if code.inside(call, scope)] if scope is not None else []
    groups = [[call] for call in near] if len(near) < 4 else []
    for group in filter(None, [*groups, near, calls]):
        dropped = _without_inplace(code, group)
        if dropped:
            lines = ", ".join(dict.fromkeys(str(call.lineno) for call in group))
            alone = len(group) == 1 and _called_once(code, group[0]) and _given_alone(context, change)
            yield _new_tensor(context, f"Drop `inplace=True` (line {lines})", dropped, alone)


def _without_inplace(code: Code, calls: list[ast.Call]) -> list[Change]:
    """Return the edits that take `inplace=True` from calls, none where one of them cannot do without."""
    removed = [remove_argument(code, call, "inplace", _inplace_position(call)) for call in calls]
    dropped = [found for found in removed if found is not None]
    return dropped if len(dropped) == len(calls) else []


def _called_once(code: Code, made: ast.Call) -> bool:
    """Return whether one expression alone reads the name that a module is made under: no other call goes without it."""
    statement = code.statement(made)
    name = last_part(statement.targets[0]) if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else ""
    read = [last_name(node) for node in of_kind(code.tree, ast.expr) if is_read(node)]
    flagged = [call for call in of_kind(statement, ast.Call) if _is_true(call)] if statement is not None else []
    return bool(name) and read.count(name) == 1 and flagged == [made]


def _given_alone(context: Context, change: InPlace) -> bool:
    """Return whether nothing else reads what the module was given that changed it."""
    call = next((call for frame in frames(change.at) if (call := context.call_at(frame)) is not None), None)
    statement = context.code.statement(call) if call is not None and call.args else None
    return call is not None and statement is not None and replaced_alone(context, statement, call.args[0])


def _inplace_position(call: ast.Call) -> int | None:
    return _INPLACE_POSITIONS.get(last_name(call.func))


def _is_true(call: ast.Call) -> bool:
    keyword, position = passed(call, "inplace"), _inplace_position(call)
    written = written_argument(call, position) if position is not None else None
    return is_literal(keyword.value if keyword is not None else written, True)


def clone_saved(context: Context) -> Iterator[Candidate]:
    """Give the op that saves the tensor a copy of it: `w @ x` to `w.clone() @ x`."""
    for collision, node, saved, change in _saved_and_changed(context):
        yield from _operand_copied(context, collision, node, saved, change)
        if saved.of is None:
            yield from _result_copied(context, node)


def _saved_and_changed(context: Context) -> Iterator[tuple[Collision, Node, Saved, InPlace]]:
    """Yield what ops saved and the program changes in place, but for ops that change what they are given."""
    for collision in context.collisions:
        problem, change = collision.problem, collision.change
        if problem is None or problem.node is None or problem.saved is None or change is None:
            continue
        if change.optimizer is None and not _changes_itself(collision, problem.node):
            yield collision, problem.node, problem.saved, change


def clone_saved_detach_written(context: Context) -> Iterator[Candidate]:
    """Give the op a copy where what is written into the tensor has a graph, too: a queue of features, a memory bank.

    The copy alone would leave the graphs of earlier iterations in the tensor.
    """
    code = context.code
    for collision, node, saved, change in _saved_and_changed(context):
        statement = code.statement_at(change.at.span)
        detached = _written_detached(code, statement) if statement is not None else None
        if statement is None or detached is None:
            continue
        for candidate in _operand_copied(context, collision, node, saved, change):
            title = f"{candidate.title}; detach what line {statement.lineno} writes"
            effect = f"{_COPY} No gradient flows through what is written."
            # What is detached before it is written leaves nothing with a graph to copy.
            changes = [*candidate.changes, detached]
            yield Candidate(title, effect, changes, fallback=True, group="clone", acts=False)


def _written_detached(code: Code, statement: ast.stmt) -> Change | None:
    """Return the edit that makes `bank[index] = z.detach()` of `bank[index] = z`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    return append(code, statement.value, ".detach()")


def _operand_copied(
    context: Context, collision: Collision, node: Node, saved: Saved, change: InPlace
) -> Iterator[Candidate]:
    code, names = context.code, {saved.name, change.name}
    if saved.of is not None:
        names |= collision.names(saved.of)
    for read in _likeliest_operands(code, node, change, names)[:3]:
        for copied in appended(code, read, ".clone()"):
            yield Candidate(
                f"Let the op on line {read.lineno} work on a copy: `{code.segment(read)}.clone()`",
                _COPY, [copied], safe=not context.caught, group="clone",
                # A tensor without a graph has a copy without one: there is no node to see.
                acts=names.isdisjoint((dotted(read), last_part(read))),
            )  # fmt: skip


def _result_copied(context: Context, node: Node) -> Iterator[Candidate]:
    """Yield `y = x.exp().clone()` for `y = x.exp()`: the op saves its own result, and what changes is the copy."""
    for frame in frames(node.at):
        made = context.code.expression_at(frame)
        if not isinstance(made, (ast.Call, ast.BinOp)):
            continue
        for copied in appended(context.code, made, ".clone()"):
            title = f"Change a copy of what line {made.lineno} makes: `.clone()`"
            yield Candidate(title, _RESULT, [copied], safe=not context.caught, group="clone")


def _likeliest_operands(code: Code, node: Node, change: InPlace, names: set[str]) -> list[ast.expr]:
    """Return what an op reads, first what is named as the changed tensor: that is likelier than any other operand."""
    changed = code.statement_at(change.at.span)
    roots = {name.split(".")[0].split("[")[0] for name in names if name}
    roots |= {root_name(one) or "" for one in targets(changed)} if changed is not None else set()
    expressions = (one for one in map(code.expression_at, frames(node.at)) if one is not None)
    operands = (_operands_of(code, expression) for expression in expressions)
    return sorted(next(filter(None, operands), []), key=lambda read: root_name(read) not in roots)


def _operands_of(code: Code, expression: ast.expr) -> list[ast.expr]:
    """Return what an expression reads that may be a tensor."""
    imported = code.imported()
    return [read for read in reads(expression) if dotted(read) != "self" and root_name(read) not in imported]


def _changes_itself(collision: Collision, node: Node) -> bool:
    """Return whether an op changes what it is given in place: given a copy, it would change that alone."""
    changes = (event for event in collision.tape.events if isinstance(event, InPlace))
    return any(change.at == node.at for change in changes)


def step_later(context: Context) -> Iterator[Candidate]:
    """Move `optimizer.step()` behind the second backward."""
    code = context.code
    for collision in context.collisions:
        change = collision.change
        if change is None or change.optimizer is None:
            continue
        for step, last, moved in itertools.islice(_steps_put_behind(code, collision, change), 1):
            same = _no_gradient_meanwhile(collision, change.optimizer)
            meanwhile = [*code.between(step, last), last]
            alone = only_backward(meanwhile) and not _clears(meanwhile) and not runs_in_backward(context)
            yield Candidate(
                f"Move `{code.segment(step)}` behind the backward on line {collision.second.at.line}"
                + ("" if same else ": the step learns from both losses"),
                "The parameters are the same in both backwards"
                + (("." if alone else f". {_MEANWHILE}") if same else _BOTH),
                moved,
                safe=same and context.stops and alone,
            )


def _steps_put_behind(
    code: Code, collision: Collision, change: InPlace
) -> Iterator[tuple[ast.Expr, ast.stmt, list[Change]]]:
    """Yield the statements of a step that can be put behind the second backward, what then stands before each, and the
    edits.
    """
    for step in code.statements(change.at):
        last = _second_end(code, collision, step) if isinstance(step, ast.Expr) else None
        if isinstance(step, ast.Expr) and last is not None and last is not step:
            if moved := _put_behind(code, step, last):
                yield step, last, moved


def _put_behind(code: Code, statement: ast.stmt, last: ast.stmt) -> list[Change]:
    """Return the changes that move a statement behind another one; none where it cannot be."""
    lines, removed = code.lines_of(statement), code.delete(statement)
    inserted = code.insert_after(last, lines) if lines is not None else None
    return [removed, inserted] if removed is not None and inserted is not None else []


def change_later(context: Context) -> Iterator[Candidate]:
    """Move an in-place change, with the block that it is made in, behind the backward."""
    code = context.code
    for collision in context.collisions:
        change, second = collision.change, collision.second
        if change is None or change.optimizer is not None:
            continue
        for statement in code.statements(change.at):
            pair = _moved(code, statement, collision)
            changes = _put_behind(code, *pair) if pair is not None else []
            if pair is None or not changes:
                continue
            moved, last = pair
            title = f"Change {_changed_text(code, statement)} behind the backward on line {second.at.line}"
            # What reads a gradient, or is called during the backward, would see another one, or another value.
            alone = only_backward([*code.between(moved, last), last])
            alone = alone and gradients_unseen(context, [moved]) and not runs_in_backward(context)
            effect = _LATER if alone else f"{_LATER} {_MEANWHILE}"
            yield Candidate(title, effect, changes, safe=context.stops and alone)
            cut = _written_without_graph(code, moved)
            inserted = code.insert_after(last, [cut]) if cut is not None else None
            if inserted is not None:
                effect = f"{_LATER} No gradient flows through what is written."
                without = [changes[0], inserted]
                yield Candidate(f"{title} and detach what is written", effect, without, fallback=True)
            break


def _clears(statements: list[ast.stmt]) -> bool:
    return any(node.attr == "zero_grad" for one in statements for node in of_kind(one, ast.Attribute))


def _written_without_graph(code: Code, statement: ast.stmt) -> str | None:
    """Return `bank[index] = z` as `bank[index] = z.detach()`."""
    change = _written_detached(code, statement)
    text, start = code.segment(statement), code.start(statement)
    if change is None or "\n" in text:
        return None
    return text[: change.start - start] + change.content + text[change.end - start :]


def change_copy(context: Context) -> Iterator[Candidate]:
    """Rewrite `m = h.detach()` to `m = h.detach().clone()` where what is written into `m` must not change `h`."""
    code = context.code
    for collision in context.collisions:
        change = collision.change
        statement = code.statement_at(change.at.span) if change is not None and change.optimizer is None else None
        if statement is None:
            continue
        for changed in _changed_values(statement):
            written = changed
            while isinstance(written, ast.Subscript):
                written = written.value
            # What an attribute is written of is an object, which may have no `clone`.
            name = id_of(written)
            if not name or name in code.imported():
                continue
            for store in code.stores(code.function(statement), name):
                if not isinstance(store, ast.Assign) or store.lineno >= statement.lineno:
                    continue
                if not isinstance(store.value, (ast.Call, ast.Subscript, ast.Attribute, ast.Name)):
                    continue
                added = append(code, store.value, ".clone()")
                if added is not None and dotted(store.targets[0]) == name:
                    yield Candidate(
                        f"Let `{name}` be a copy (line {store.lineno}): `.clone()`",
                        f"What is written into `{name}` no longer changes the tensor that it was taken from.",
                        [added],
                        group="copy",
                        acts=False,
                    )


def _moved(code: Code, statement: ast.stmt, collision: Collision) -> tuple[ast.stmt, ast.stmt] | None:
    """Return what to move, and what behind: where the change comes before the backward in one block, and nothing
    between the two reads what is changed, or writes what the change reads.
    """
    target = code.statement_in(code.function(statement), collision.second.at)
    pair = code.same_block(statement, target) if target is not None else None
    if pair is None or pair[0] is pair[1] or pair[0].lineno > pair[1].lineno:
        return None
    between = code.between(*pair)
    if collision.built_after_change() and not all(_calls_library(code, one) for one in between):
        return None
    return pair if _is_put_off(code, pair[0], [*between, pair[1]]) else None


def _is_put_off(code: Code, moved: ast.stmt, meanwhile: Sequence[ast.stmt]) -> bool:
    """Return whether a change may come behind some statements, by the names in them."""
    names = {node.id for node in of_kind(moved, ast.Name)} - code.imported() - set(dir(builtins))
    changed = {root_name(value) for value in _changed_values(moved)} - {None}
    met = (node for one in meanwhile for node in of_kind(one, ast.Name) if node.id in names)
    bound = (part for node in of_kind(moved, ast.Assign) for part in targets(node))
    return (
        bool(changed)
        and not any(isinstance(part, ast.Name) for part in bound)
        and all(node.id not in changed and _is_left_alone(code, node) for node in met)
    )


def _calls_library(code: Code, statement: ast.stmt) -> bool:
    """Return whether a statement calls functions of torch and methods of variables alone: they read nothing else."""
    for call in of_kind(statement, ast.Call):
        method = isinstance(call.func, ast.Attribute) and not isinstance(call.func.value, ast.Attribute)
        if not method and not code.path(call.func).startswith("torch."):
            return False
    return True


def _is_left_alone(code: Code, name: ast.Name) -> bool:
    """Return whether what a name has is read there by an operator or a function of a library: neither changes it."""
    user = code.parent(name)
    if isinstance(user, ast.Call):
        return name in user.args and code.path(user.func).startswith("torch.") and not method_called(user).endswith("_")
    return isinstance(user, (ast.BinOp, ast.UnaryOp, ast.Compare)) and is_read(name)


def leave_out(context: Context) -> Iterator[Candidate]:
    """Take out an in-place change of a local value that nothing reads afterwards."""
    code = context.code
    for change in _changes(context):
        statement = code.statement_at(change.at.span)
        values = _changed_values(statement) if statement is not None else []
        value = values[0] if len(values) == 1 else None
        if statement is None or not isinstance(value, ast.Name):
            continue
        if not _takes_the_place(code, change, statement, value) and _only_computed_with(code, statement, value):
            gone = code.delete(statement)
            if change.leaf is None and gone is not None:
                yield Candidate(
                    f"Leave `{code.segment(statement)}` out: nothing reads `{value.id}` after it",
                    "The saved tensor is left as it was, so the backward can use it.",
                    [gone],
                    fallback=True,
                )


def _only_computed_with(code: Code, statement: ast.stmt, value: ast.Name) -> bool:
    """Return whether a name is one of a function's own, which gives its tensor to operators alone: none keeps it."""
    function = code.function(statement)
    stores = code.stores(function, value.id)
    loads = [load for load in code.loads(function, value.id) if not code.inside(load, statement)]
    return (
        isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        and all(isinstance(store, ast.AugAssign) or _computes(store) for store in stores)
        and any(isinstance(store, ast.Assign) for store in stores)
        and all(isinstance(code.parent(load), (ast.BinOp, ast.UnaryOp, ast.Compare)) for load in loads)
    )


def _computes(store: ast.stmt) -> bool:
    """Return whether a statement gives a name what an operator returns, or a function of no value that has a name: what
    may be a view of such a value is changed with it.
    """
    value = store.value if isinstance(store, ast.Assign) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.keywords:
        return all(isinstance(part, (ast.Call, ast.BinOp, ast.Constant)) for part in value.args) and bool(value.args)
    return isinstance(value, (ast.BinOp, ast.UnaryOp))


def _changed_values(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=changed))):
            return [changed]
    return targets(statement)


def _changed_text(code: Code, statement: ast.stmt) -> str:
    values = _changed_values(statement)
    return f"`{code.segment(values[0])}`" if values else "it"


def _second_end(code: Code, collision: Collision, step: ast.stmt) -> ast.stmt | None:
    statement = code.statement_in(code.function(step), collision.second.at)
    if statement is None or statement.lineno < step.lineno:
        return None
    return code.within_block(statement, code.block(step))


def _no_gradient_meanwhile(collision: Collision, optimizer: int) -> bool:
    """Return whether the second backward gives this optimizer's parameters nothing that its step would use."""
    optimizers = (event for event in collision.tape.events if isinstance(event, Optimizer))
    params = {leaf for event in optimizers if event.id == optimizer for leaf in event.params}
    return params.isdisjoint(collision.leaves(collision.second.root_nodes))


def turn_first(context: Context) -> Iterator[Candidate]:
    """In a loop over written pairs of optimizer and loss: let the loss whose graph the others' steps spoil go first."""
    code = context.code
    for collision in context.collisions:
        if collision.change is None or collision.change.optimizer is None:
            continue
        statement = code.statement_at(collision.second.at.span)
        if statement is None:
            continue
        for loop in code.loops(statement):
            if not isinstance(loop, ast.For) or not isinstance(loop.iter, (ast.Tuple, ast.List)):
                continue
            elements = loop.iter.elts
            position = next((index for number, index in collision.second.at.iteration[-1:]), 0)
            if not 1 < position <= len(elements):
                continue
            order = [elements[position - 1], *(e for i, e in enumerate(elements) if i != position - 1)]
            changes = [code.replace(place, code.segment(one)) for place, one in zip(elements, order, strict=True)]
            yield Candidate(
                "Run the backward whose graph the other steps change first: the steps come in another order",
                "Each loss is learned from with the parameters that it was computed with.",
                changes,
            )
            break


STRATEGIES: tuple[Strategy, ...] = (
    no_broadcast,
    out_of_place,
    clone_saved,
    read_copies,
    turn_first,
    detach_carried,
    step_once,
    forward_again,
    detach_shared,
    step_later,
    change_later,
    change_copy,
    write_into_copy,
    leave_out,
    all_out_of_place,
    clone_saved_detach_written,
)
"""What is proposed, preferred first."""
