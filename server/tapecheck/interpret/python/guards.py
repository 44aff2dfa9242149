"""Guards of loops: conditions on numbers that come out otherwise only after many iterations.

A loop is run a few times and then cut short. Where what it counts up stands before a guard (`if step < 1000`), the
loop is taken on to the first iteration in which the guard comes out the other way, and run a few times more there.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.state import Comparisons, Count, Growth, Guard
from tapecheck.interpret.values import Env, List, Range, Value, concrete, settle_on
from tapecheck.interpret.values.vocabulary import STARTS, TOUCHES
from tapecheck.source.nodes import STORES, attr_of, id_of, last_name, method_called, name_called, of_kind, walk

_TESTS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip


def note_guard(machine: Engine, statement: ast.If, test: ast.Compare, answer: bool, env: Env) -> None:
    """Note a condition on numbers that a loop comes to, so that the loop can be taken on to where it is otherwise."""
    comparisons, position = machine.world.comparisons, machine.world.position
    apart = comparisons.apart(test)
    if apart is None:
        return
    guard = comparisons.guards.get(id(test))
    if guard is not None and comparisons.varied is test:
        _discount(comparisons, guard)
    if guard is None or guard.at[-1][0] != position.iteration[-1][0]:
        comparisons.guards[id(test)] = _entered(machine, statement, test, apart, answer, env)
        return
    if not guard.skipped:
        step = apart - guard.apart if guard.at[-1][1] + 1 == position.iteration[-1][1] else 0
        guard.step = step % guard.divisor if guard.divisor else step
    guard.apart, guard.at, guard.skipped, guard.moving = apart, position.iteration, False, False
    guard.fresh = None if answer in guard.answers else answer
    guard.answers.add(answer)
    guard.told += answer is guard.telling


def note_overruled(machine: Engine, parts: Sequence[ast.expr], decisive: ast.expr) -> None:
    """Note that what some parts of a condition came to decided nothing, because of another comparison of numbers.

    `step % 100 == 0 and step > 0` holds for the first time when both do: a guard that was overruled is yet to come out
    the way that lets the other part decide.
    """
    now = machine.world.position.iteration
    asked = [guard for guard in machine.world.comparisons.guards.values() if guard.at == now] if now and parts else []
    if not any(guard.step or guard.moving for guard in _within(decisive, asked)):
        return
    for guard in (guard for part in parts for guard in _within(part, asked)):
        if guard.fresh is not None:
            guard.answers.discard(guard.fresh)
            guard.fresh = None


def _within(part: ast.expr, guards: Sequence[Guard]) -> list[Guard]:
    """Return those of some guards that a part of a condition asks."""
    nodes = {id(node) for node in walk(part)} if guards else set()
    # A remainder that is a test itself is compared by what was made of it.
    return [guard for guard in guards if id(guard.test) in nodes or id(guard.test.left) in nodes]


def note_cutting(machine: Engine, loop: ast.While, answer: bool, env: Env) -> None:
    """Note the condition of a `while` that cuts a container back to a length, as it is asked before the first turn: to
    the loop around it, it is an `if`.
    """
    notes = machine.world.position.notes
    if machine.world.position.iteration and isinstance(loop.test, ast.Compare) and notes.of(loop, _cuts_back):
        note_guard(machine, notes.of(loop, _as_if), loop.test, answer, env)


def _as_if(loop: ast.While) -> ast.If:
    return ast.copy_location(ast.If(loop.test, loop.body, loop.orelse), loop)


def _discount(comparisons: Comparisons, guard: Guard) -> None:
    """Take the numbers of a guard out of those that vary, where nothing hangs on them or the guard looks after them."""
    if guard.idle:
        # In whichever loops they are compared.
        comparisons.varied = None
        comparisons.varying -= 1
    elif guard.matters or not _stores(guard):
        comparisons.varied = None
        comparisons.guarded += 1


def _entered(machine: Engine, statement: ast.If, test: ast.Compare, apart: float, answer: bool, env: Env) -> Guard:
    """Return the guard that a condition is in a loop that has just been entered."""
    world = machine.world
    before = world.comparisons.guards.get(id(test))
    moving = before is None or before.apart != apart
    idle = world.watcher is not None and world.watcher.idle(world, statement, env)
    matters = not idle and ((before is not None and before.matters) or _matters(machine, statement, answer, env))
    guard = Guard(statement, test, apart, {answer}, world.position.iteration, moving=moving, matters=matters, idle=idle)
    guard.fresh = answer
    guard.entered = apart
    if before is not None and (around := _following_within(before.at, guard.at)):
        guard.around, guard.turn = around, before.turn if before.skipped else apart - before.entered
    if matters and statement.test is test:
        # What is kept now and then is seen to grow once that was done a second and a third time.
        guard.telling, guard.enough = world.position.notes.of(statement, _keeping), limits.MIN_ITERATIONS
        if guard.telling is None and world.watcher is not None:
            guard.telling, guard.enough = world.watcher.clears(world, statement, env), limits.TIMES_CLEARED
        guard.told = int(answer is guard.telling)
    match test.left:
        case ast.BinOp(op=ast.Mod(), right=ast.Constant() | ast.Name() | ast.Attribute() as part):
            divisor = concrete(machine.eval(part, env))
            guard.divisor = divisor if type(divisor) is int else 0
    return guard


def reaching(machine: Engine, node: ast.For | ast.AsyncFor, value: Value, env: Env) -> Value:
    """Return what a loop goes over, as a range that comes to its guards if it was the loop's own to settle how far.

    Nobody has asked yet for the end, so that it may be any other as well.
    """
    name = id_of(node.target)
    if not name or not isinstance(value, Range) or value.settled is None or machine.world.choices.policy.length:
        return value
    far = max((_reached_at(machine, part, name, env) for part in of_kind(node, ast.If)), default=0)
    if machine.world.position.notes.of(node, _reckons):
        # It has to be settled before the loop asks for it.
        far = max(far, value.start + max(machine.world.position.notes.of(node, _cut_to), default=0))
    if not len(value) < far - value.start <= limits.FARTHEST:
        return value
    settle_on(value.settled, far)
    return replace(value, stop=far, settled=None)


def _reached_at(machine: Engine, statement: ast.If, name: str, env: Env) -> int:
    """Return how far a loop has to count for a condition on its number to have come out either way, where a graph can
    hang on it.
    """
    numbers = [0]
    for test in walk(statement.test):
        match test:
            case ast.BinOp(left=counted, op=ast.Mod(), right=ast.Constant(value=int(number))):
                number += 1
            case ast.Compare(left=counted, ops=[_], comparators=[ast.Constant(value=int(number))]):
                number += 2
            case ast.Compare(left=ast.Constant(value=int(number)), ops=[_], comparators=[counted]):
                number += 2
            case _:
                continue
        if any(part.id == name for part in of_kind(counted, ast.Name)):
            numbers.append(number)
    # Of what has to hold at once, each part may be the one that is waited for once the others do.
    every = any(type(part.op) is ast.And for part in of_kind(statement.test, ast.BoolOp))
    far = sum(numbers) if every else max(numbers)
    return far if far and _matters(machine, statement, True, env) else 0


def reckons(machine: Engine, node: ast.For | ast.AsyncFor, loop: int) -> bool:
    """Whether a loop over a range asks how long that is, as `if step == steps - 1` does."""
    notes = machine.world.position.notes
    names = notes.of(node, _ends_of)
    guards = machine.world.comparisons.guards.values()
    asked = (guard.test for guard in guards if guard.at[-1][0] == loop)
    return notes.of(node, _reckons) or any(names & notes.of(test, _names_in) for test in asked)


def _reckons(node: ast.For | ast.AsyncFor) -> bool:
    names = _ends_of(node)
    return any(names & _names_in(test) for test in _comparisons(node))


def _cut_to(node: ast.For | ast.AsyncFor) -> list[int]:
    """Return after how many iterations the conditions of a loop have come out either way that cut a container back."""
    return [
        number.value + 2
        for part in walk(node)
        if isinstance(part, (ast.If, ast.While)) and _cuts_back(part)
        for number in of_kind(part.test, ast.Constant)
        if type(number.value) is int
    ]


def _ends_of(node: ast.For | ast.AsyncFor) -> set[str]:
    """Return the names and attributes of what a loop goes over, those that are called left out."""
    called = {id(call.func) for call in of_kind(node.iter, ast.Call)}
    owners = {id(part.value) for part in of_kind(node.iter, ast.Attribute)}
    return {last_name(part) for part in walk(node.iter) if id(part) not in called | owners} - {""}


def _comparisons(node: ast.For | ast.AsyncFor) -> list[ast.AST]:
    """Return what a loop's body compares, and how far it counts itself."""
    return [
        part
        for block in node.body
        for part in walk(block)
        if isinstance(part, ast.Compare) or name_called(part) == "range"
    ]


def _names_in(node: ast.AST) -> set[str]:
    return {last_name(part) for part in walk(node)}


def _following_within(before: tuple[tuple[int, int], ...], now: tuple[tuple[int, int], ...]) -> int:
    """Return the loop of which `now` is in the iteration after that of `before`, in a loop within it; 0 for none."""
    if len(before) != len(now) or len(now) < 2 or before[:-2] != now[:-2]:
        return 0
    (loop, done), (same, following) = before[-2], now[-2]
    return loop if same == loop and following == done + 1 else 0


def note_flag(machine: Engine, name: str, given: ast.expr, env: Env) -> None:
    """Note that a name is given the outcome of a test, or something else."""
    flags = machine.world.comparisons.flags
    if isinstance(given, ast.Compare) and len(given.ops) == 1:
        flags[id(env), name] = env, given
    else:
        flags.pop((id(env), name), None)


def compared(machine: Engine, test: ast.expr, env: Env) -> ast.Compare | ast.BinOp | None:
    """Return the comparison, or the remainder, that a test is or that the name in it was given the outcome of."""
    match test:
        case ast.Name(id=name):
            known = machine.world.comparisons.flags.get((id(env), name))
            return known[1] if known is not None else None
        case ast.BinOp(op=ast.Mod()) | ast.Compare():
            return test
    return None


def ahead(machine: Engine, loop: int, reached: list[int], most: float) -> tuple[int, int]:
    """How many iterations on a guard of a loop that is cut short comes out otherwise than in all that were run.

    `reached` are the guards that the loop was taken on to before, `most` the iterations that it has left. The second
    number is how many iterations are worth running from there.
    """
    world = machine.world
    best = chosen = 0
    if len(reached) >= limits.MOST_JUMPS:
        return 0, 0
    for key, guard in world.comparisons.guards.items():
        count = _turns_of(machine, guard, loop, again=key in reached)
        if 0 < count <= most and (not best or count < best):
            best, chosen = count, key
    if not best:
        return 0, 0
    reached.append(chosen)
    periodic = world.comparisons.guards[chosen].divisor > 0 or isinstance(
        world.comparisons.guards[chosen].test.ops[0], ast.Eq
    )
    extra = 1 if periodic else limits.AFTER_GUARD
    # What is done every few iterations is done in those that are passed over, too: they are whole rounds of it.
    passed = (best - 1) // (turn := cycle(machine, loop, chosen)) * turn
    return passed + 1, best - passed - 1 + extra


def _turns_of(machine: Engine, guard: Guard, loop: int, *, again: bool) -> int:
    """After how many further iterations of a loop it is worth coming to a guard; 0 where it never is.

    `again` says that the loop was taken on to it before.
    """
    if not again and (count := _turns_of_inner(machine, guard, loop)):
        return count
    # A loop that an exception has led out of is left where no iteration runs any more.
    now = machine.world.position.iteration[-1:]
    asked = now == guard.at[-1:] and [number for number, _ in now] == [loop]
    if not asked or not guard.step or not guard.matters:
        return 0
    untold = guard.divisor > 0 and guard.telling is not None and guard.told < guard.enough
    if len(guard.answers) > 1 and not again and not untold:
        return 0
    return turns_after(guard, again=again, wanted=guard.telling if untold else None)


def _turns_of_inner(machine: Engine, guard: Guard, loop: int) -> int:
    """After how many further iterations of a loop a guard of one within comes out otherwise as that is entered; 0 for
    never: what it compares moves on each time that the inner loop is entered.
    """
    near = guard.around == loop and machine.world.position.iteration[-1] == guard.at[-2]
    if not near or not guard.matters or guard.divisor or len(guard.answers) > 1:
        return 0
    return turns_after(replace(guard, apart=guard.entered, step=guard.turn))


def at_hand(machine: Engine, loop: int) -> bool:
    """Whether a condition on which a graph can hang may come out otherwise in the next iteration of a loop."""
    now = machine.world.position.iteration[-1]
    for guard in machine.world.comparisons.guards.values():
        if guard.at[-1][0] == loop:
            # One that this iteration did not ask, or not of numbers that are known, says nothing of the next.
            near = guard.at[-1] == now and (guard.moving or _turns_next(guard))
        else:
            # In a loop within: what it compares there may change with this one.
            near = guard.moving and now in guard.at
        if near and (guard.matters or _stores(guard)):
            return True
    return False


def cycle(machine: Engine, loop: int, but: int = 0) -> int:
    """Return after how many iterations of a loop all comes round again that it was seen to do every few of them, `but`
    for one guard.
    """
    found = 1
    for key, guard in machine.world.comparisons.guards.items():
        seen = guard.at[-1][0] == loop and guard.divisor > 0 and len(guard.answers) > 1 and key != but
        if seen and (guard.matters or _stores(guard)):
            both = math.lcm(found, guard.divisor)
            found = both if both <= limits.MAX_ITERATIONS else found
    return found


def comes_round(machine: Engine, loop: int) -> bool:
    """Whether a condition of a loop holds every so many iterations."""
    guards = machine.world.comparisons.guards.values()
    return any(guard.at[-1][0] == loop and guard.divisor > 0 for guard in guards)


def _stores(guard: Guard) -> bool:
    """Whether what a guard decides about gives names other values, or enters contexts, that something may hang on."""
    return not guard.idle and any(
        isinstance(part, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.With))
        or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Call) and method_called(part.value) in _ENTERING)
        for part in (*guard.statement.body, *guard.statement.orelse)
    )


def own_guard(machine: Engine, node: ast.While, before: Guard | None, done: int) -> Guard | None:
    """Return the condition of a `while` itself as a guard, where it compares numbers: it says when the loop ends."""
    apart = machine.world.comparisons.apart(node.test)
    if not isinstance(node.test, ast.Compare) or apart is None:
        return None
    guard = Guard(ast.If(node.test, [], []), node.test, apart, {True}, ((0, done),))
    guard.step = apart - before.apart if before is not None and not before.skipped else getattr(before, "step", 0)
    return guard


def turns_after(guard: Guard, *, again: bool = False, wanted: bool | None = None) -> int:
    """After how many further iterations a guard comes out the other way; 0 where it does not.

    `again` asks for the next time that one which comes round (`step % 100 == 0`) comes out as it just did, `wanted` for
    the next time that it comes out so.
    """
    kind = type(guard.test.ops[0])
    test = _TESTS.get(kind)
    if test is None or not guard.step or not math.isfinite(guard.apart) or not math.isfinite(guard.step):
        return 0
    now = test(guard.apart, 0)
    if guard.divisor > 0:
        places = range(1, min(guard.divisor, limits.FARTHEST) + 1) if float(guard.step).is_integer() else ()
        if wanted is None:
            wanted = now if again else not now
        return next(
            (count for count in places if test((guard.apart + count * guard.step) % guard.divisor, 0) == wanted), 0
        )
    nearest = max(math.floor(-guard.apart / guard.step), 0)
    near = (count for count in (nearest, nearest + 1) if count)
    return next((count for count in near if test(guard.apart + count * guard.step, 0) != now), 0)


def _turns_next(guard: Guard) -> bool:
    """Whether a guard comes out the other way in the next iteration."""
    test = _TESTS.get(type(guard.test.ops[0]))
    if test is None or not guard.step or not math.isfinite(guard.apart) or not math.isfinite(guard.step):
        return False
    following = guard.apart + guard.step
    if guard.divisor > 0:
        if not float(guard.step).is_integer():
            return False
        following %= guard.divisor
    return test(following, 0) != test(guard.apart, 0)


def trains(machine: Engine, statement: ast.If, taken: bool, env: Env) -> bool:
    """Whether what a condition decides about runs a backward, steps or clears, or calls what does."""
    watcher = machine.world.watcher
    return watcher is not None and watcher.trains(machine.world, statement, taken, env)


def _matters(machine: Engine, statement: ast.If, taken: bool, env: Env) -> bool:
    """Whether a graph can hang on which way a guard goes: not where it only reports, or only ends the loop."""
    watcher = machine.world.watcher
    return (
        machine.world.position.notes.of(statement, _decides)
        or machine.world.position.notes.of(statement, _cuts_back)
        or trains(machine, statement, taken, env)
        or (watcher is not None and watcher.evaluates(machine.world, statement, env))
    )


def _keeping(statement: ast.If) -> bool | None:
    """The answer of a condition with which a value is put into a container that may have a graph."""
    for block, answer in ((statement.body, True), (statement.orelse, False)):
        for child in (child for part in block for child in of_kind(part, ast.Call)):
            if method_called(child) in STORES:
                if any(isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)) for part in child.args):
                    return answer
    return None


def _cuts_back(statement: ast.If | ast.While) -> bool:
    """Whether a condition asks for a length, and what it guards takes something out or gives a name another value."""
    return any(name_called(part) == "len" for part in of_kind(statement.test, ast.Call)) and any(
        isinstance(part, (ast.Delete, ast.Assign)) or method_called(part) in _TAKING
        for block in statement.body
        for part in walk(block)
    )


_TAKING = frozenset(("pop", "popleft", "popitem", "remove"))
_ENTERING = frozenset(("enter_context", "enter_async_context", "__enter__", "set_requires_gradient_sync"))


def _decides(statement: ast.If) -> bool:
    body = [*statement.body, *statement.orelse]
    if all(isinstance(part, (ast.Break, ast.Raise, ast.Pass)) for part in body):
        return False
    return any(
        isinstance(child, (ast.Continue, ast.Return))
        or (attr_of(child) in TOUCHES)
        or (isinstance(child, ast.keyword) and child.arg in STARTS)
        for part in body
        for child in walk(part)
    )


def counted_since(
    machine: Engine, first: int
) -> tuple[dict[tuple[int, Hashable], list[Count[str] | Count[Hashable]]], dict[int, tuple[List, int]]]:
    """Return what a loop counted up, by owner and key, and the lists that it filled, with how much.

    `first` is where in `Comparisons.counted` the loop's own entries begin.
    """
    rows: dict[tuple[int, Hashable], list[Count[str] | Count[Hashable]]] = {}
    grown: dict[int, tuple[List, int]] = {}
    for one in machine.world.comparisons.counted.since(first):
        number = id(one.owner)
        if isinstance(one, Growth):
            grown[number] = (one.owner, grown.get(number, (one.owner, 0))[1] + one.number)
        else:
            rows.setdefault((number, one.key), []).append(one)
    return rows, grown


def take_on(machine: Engine, first: int, done: int, count: int) -> None:
    """Let some iterations pass: what the loop counts up or fills is as far on as they would have taken it.

    `first` is where in `Comparisons.counted` the loop's own entries begin, `done` how many iterations were run.
    """
    loop = machine.world.position.iteration[-1][0]
    for guard in machine.world.comparisons.guards.values():
        # Those of the loops around it count their own iterations, of which none is passed over.
        if any(place[0] == loop for place in guard.at):
            guard.skipped = True
    rows, grown = counted_since(machine, first)
    for owner, total in grown.values():
        owner.left_out(total * count // done)
    for counts in rows.values():
        value = counts[0].current()
        if value is not None and len(counts) > 1:
            apart = (counts[-1].value - counts[0].value) / (len(counts) - 1)
            reached = value + apart * (len(counts) / done) * count
            counts[0].become(int(reached) if isinstance(value, int) and reached.is_integer() else reached)
