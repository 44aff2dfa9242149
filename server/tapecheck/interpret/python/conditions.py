"""Conditions: what is true, what a comparison comes to, and which way an undecided one goes."""

from __future__ import annotations

import ast
import contextlib
import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import algebra, carry, records, syntax, unknowns
from tapecheck.interpret.python import consequences, guards
from tapecheck.interpret.state import Flag, merge_cuts
from tapecheck.interpret.values import (
    Container,
    Decides,
    Default,
    Dict,
    Env,
    Instance,
    Lib,
    List,
    Mark,
    Native,
    Origin,
    Question,
    Set,
    Signal,
    Tensor,
    Unknown,
    Value,
    attrs_of,
    behaviour,
    concrete,
    deciding,
    declines,
    equal,
    expression,
    identical,
    is_constant,
    is_number,
    known_elements,
)
from tapecheck.source.nodes import attr_of, id_of, name_called, negated, of_kind

_EXCLUSIVE = ("Eq", "Lt", "Gt")
_COMPARE: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_RICH: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("__eq__", "__eq__"), ast.NotEq: ("__ne__", "__ne__"), ast.Lt: ("__lt__", "__gt__"),
    ast.LtE: ("__le__", "__ge__"), ast.Gt: ("__gt__", "__lt__"), ast.GtE: ("__ge__", "__le__"),
}  # fmt: skip
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
}  # fmt: skip
_NEGATED = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In, ast.GtE: ast.Lt, ast.LtE: ast.Gt}
_IDENTITY = (ast.Is, ast.IsNot)
_AS_IDENTITY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Is, ast.NotEq: ast.IsNot, **{kind: kind for kind in _IDENTITY},
}  # fmt: skip
_RELATIONS = (*_IDENTITY, ast.In, ast.NotIn)
_NUMBERS = (int, float, complex)


def test(machine: Engine, expression: ast.expr, env: Env, node: ast.AST, default: bool | None = None) -> bool:
    """Decide a condition: by its value where known, else by the policy of this way through the program.

    `node` is the statement that the condition belongs to, `default` the likelier answer.
    """
    if default is None:
        default = machine.world.choices.leaving.get(node)
    if isinstance(expression, ast.BoolOp):
        wanted = type(expression.op) is ast.Or
        for place, part in enumerate(expression.values):
            if test(machine, part, env, node, default) == wanted:
                guards.note_overruled(machine, expression.values[:place], part)
                return wanted
        return not wanted
    if (opposite := negated(expression)) is not None:
        return not test(machine, opposite, env, node, not _default(machine, node, default))
    if isinstance(expression, ast.Compare) and len(expression.ops) > 1:
        return _test_chain(machine, expression, env, node, _default(machine, node, default))
    _keep_defaults(machine, expression, env)
    given = machine.eval(expression, env)
    machine.operates((given,), expression)
    value = unknowns.setting(machine, given)
    answer = known_truth(machine, value)
    if answer is None or (node in machine.world.choices.leaving and _asked_here(machine, expression, value)):
        return _decided(machine, expression, value, env, node, _default(machine, node, default))
    machine.world.choices.came_out.add((expression, answer))
    if type(node) is ast.If:
        if machine.world.choices.answering:
            _follow(machine, expression, value, node, env)
        if machine.world.position.iteration:
            _note_guard(machine, expression, value, answer, node, env)
    return answer


def branch(machine: Engine, node: ast.If, env: Env) -> bool:
    """Return whether an `if` runs its body. A program that would end for want of a GPU is run where there is one."""
    sides = (node.body, node.orelse) if isinstance(node.test, ast.UnaryOp) else (node.orelse, node.body)
    if not syntax.asks_for_accelerator(node.test) or not syntax.only_ends(sides[0]):
        return test(machine, node.test, env, node)
    with _accelerated(machine):
        return test(machine, node.test, env, node)


def asserted(machine: Engine, node: ast.Assert, env: Env) -> Value:
    """Return the value of an `assert`. A program that asserts that there is a GPU is run where there is one."""
    if isinstance(node.test, ast.UnaryOp) or not syntax.asks_for_accelerator(node.test):
        return machine.eval(node.test, env)
    with _accelerated(machine):
        return machine.eval(node.test, env)


@contextlib.contextmanager
def _accelerated(machine: Engine) -> Iterator[None]:
    """Let there be a GPU from now on, if a question whether there is one is asked within and has not been before.

    Who catches the exception goes on without one.
    """
    modes = machine.world.modes
    if modes.accelerators_asked or machine.handlers:
        yield
        return
    modes.accelerated = True
    try:
        yield
    finally:
        modes.accelerated = modes.accelerators_asked > 0


def _asked_here(machine: Engine, expression: ast.expr, value: Value) -> bool:
    """Return whether a value is known only since this very condition was answered: in an earlier iteration."""
    value = asked(machine, value)
    if not isinstance(value, Unknown):
        return False
    span, answering = machine.world.position.span(expression), machine.world.choices.answering
    places = {answering[id(one)] for one in unknowns.origins(unknowns.asked(value)) if id(one) in answering}
    return places == {(span.file, span.line, span.column)}


def _note_guard(machine: Engine, expression: ast.expr, value: Value, answer: bool, node: ast.If, env: Env) -> None:
    """Note a condition of numbers that a loop comes to, see `guards`."""
    compared = guards.compared(machine, expression, env)
    if isinstance(compared, ast.BinOp):
        # A remainder itself is the test: `if not step % 4`.
        compared = machine.world.position.notes.of(compared, _unlike_zero)
        _compare_constants(machine, compared.ops[0], value, 0, compared)
    if compared is not None:
        guards.note_guard(machine, node, compared, answer, env)


def _follow(machine: Engine, expression: ast.expr, value: Value, node: ast.If, env: Env) -> None:
    """Note that what a condition asks about was settled by the answer to another one."""
    asked = [value]
    if isinstance(expression, ast.Compare):
        # What was found equal to a constant stands for that.
        asked += [_looked_up(machine, side, env) for side in (expression.left, *expression.comparators)]
    for one in asked:
        one = unknowns.asked(unknowns.setting(machine, one))
        if isinstance(one, Unknown):
            machine.world.choices.follow(unknowns.origins(one), node)


def _looked_up(machine: Engine, side: ast.expr, env: Env) -> Value:
    """Return what a side of a test names, None where it names nothing or looking it up may run code of the program."""
    match side:
        case ast.Name():
            return machine.eval(side, env)
        case ast.Attribute(value=inner, attr=name):
            owner = _looked_up(machine, inner, env)
            if isinstance(owner, Instance):
                return owner.attrs.get(name)
            return machine.eval(side, env) if isinstance(owner, Unknown) else None
    return None


def _default(machine: Engine, node: ast.AST, default: bool | None) -> bool:
    """Return the likelier answer to a condition, which most that are asked need not: their value says it."""
    return machine.world.position.notes.of(node, syntax.default_branch) if default is None else default


def _decided(machine: Engine, expression: ast.expr, value: Value, env: Env, node: ast.AST, default: bool) -> bool:
    """Return how this way through the program answers a condition, whose value does not say."""
    choices = machine.world.choices
    leaves = node in choices.leaving
    default = default if leaves else _likelier(machine, expression, value, env, node, default)
    flagged = flag_asked(machine, expression, env) if behaviour(value).default.likely is None else None
    if flagged is not None:
        default, leaves = flagged[1], leaves or flagged[0].last
    # A function that calls itself comes to an end, whatever this way through the program has answered so far.
    deep = machine.world.calls.recursion >= limits.RECURSION_DECIDED
    if deep and isinstance(node, ast.If):
        default = not _recurses(node, machine.world.position.frames[-1].function.rpartition(".")[2])
    text = machine.world.position.notes.of(expression, syntax.text_of)
    counted = asks_a_count(machine, expression, env)
    origins = unknowns.origins(unknowns.asked(value))
    if not choices.counts_by_options and type(node) is ast.If:
        by_option = unknowns.counts_by_option(origins) or (counted and bool(_options(machine, expression, env)))
        choices.counts_by_options = by_option and any(guards.trains(machine, node, side, env) for side in (True, False))
    cuts = _taken_out(value)
    answer = choices.choose(
        expression, default, text, node, likelier=deep or leaves, counted=counted, cuts=cuts,
        hidden=unknowns.hidden(machine, value), usual=behaviour(value).by_default(),
        setting=behaviour(value).given_as, reaches=_reaches(machine, expression, env),
    )  # fmt: skip
    choices.answers(origins)
    choices.note_flag(flagged, answer)
    settle(machine, value, answer)
    return answer


def answered(machine: Engine, pattern: ast.pattern, value: Value, node: ast.Match) -> bool:
    """Return how this way through the program answers what a pattern asks, which the value does not say."""
    likely = behaviour(value).default.likely
    answer = machine.world.choices.choose(
        pattern, True if likely is None else likely, f"case {ast.unparse(pattern)}", node, cuts=_taken_out(value),
        hidden=unknowns.hidden(machine, value), usual=behaviour(value).by_default(),
        setting=behaviour(value).given_as,
    )  # fmt: skip
    machine.world.choices.answers(unknowns.origins(unknowns.asked(value)))
    settle(machine, value, answer)
    return answer


def _unlike_zero(remainder: ast.BinOp) -> ast.Compare:
    return ast.copy_location(ast.Compare(remainder, [ast.NotEq()], [ast.Constant(0)]), remainder)


def _keep_defaults(machine: Engine, expression: ast.expr, env: Env) -> None:
    """Settle the options that a test compares with what a loop counts, in a path that keeps their defaults."""
    if machine.world.choices.policy.by_default and asks_a_count(machine, expression, env):
        for side, option in _options(machine, expression, env):
            unknowns.keep_default(machine.world, option, side)


def _options(machine: Engine, expression: ast.expr, env: Env) -> list[tuple[ast.expr, Value]]:
    """Return the undecided options that a comparison names and that can say how often a loop comes to something."""
    sides = (expression.left, *expression.comparators) if isinstance(expression, ast.Compare) else ()
    values = [(side, machine.eval(side, env)) for side in sides if syntax.is_path(side)]
    return [(side, value) for side, value in values if unknowns.period(value) is not None]


def _likelier(machine: Engine, expression: ast.expr, value: Value, env: Env, node: ast.AST, default: bool) -> bool:
    """Return the likelier answer of an undecided test, by what it comes to."""
    likely = behaviour(value).default.likely
    if likely is not None and not _counted(machine, expression):
        return likely
    if isinstance(value, Unknown) and unknowns.takes_graph(value) and _default(machine, node, None):
        # What may have a graph is taken to have it, unless the other side leaves.
        return False
    asked, answer = behaviour(value).turned(True)
    if not answer and unknowns.finds_plain(asked):
        return True
    unlike = _equated(machine, expression, env) if isinstance(value, Tensor) else None
    return default if unlike is None else unlike


def flag_asked(machine: Engine, expression: ast.expr, env: Env) -> tuple[Flag, bool] | None:
    """Return the flag that a test asks, where a loop around it goes on by that, and the likelier answer of the test."""
    if not machine.world.choices.going_on or (known := syntax.flag_of(expression)) is None:
        return None
    flag = machine.world.choices.going_on.get((id(env), syntax.text_of(known[0])))
    if flag is None:
        return None
    value = machine.eval(known[0], env)
    if type(known[0]) is ast.Name and value is flag.begun:
        # It has the answer with which the iteration began, whatever the policy.
        return replace(flag, last=True), (flag.answer is not flag.last) is known[1]
    return replace(flag, begun=value), flag.answer is known[1]


_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)


def _counted(machine: Engine, expression: ast.expr) -> bool:
    """Whether a test puts a number of the program in order with an option, in a loop that may count it up to there.

    What comes out in the first iterations (`step > args.warm_up`) says little of the loop.
    """
    match expression:
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE(), *_], comparators=others):
            # A minus is an operator: `find("x") > -1`.
            named = not any(isinstance(getattr(side, "operand", side), ast.Constant) for side in (left, *others))
            return named and bool(machine.world.position.iteration)
    return False


def _reaches(machine: Engine, expression: ast.expr, env: Env) -> bool | None:
    """Return which answer to a test says that a loop has come to the number that another name has, which nobody knows:
    `i == chosen`; None of any other test.
    """
    match expression:
        case ast.Compare(left=left, ops=[(ast.Eq() | ast.NotEq()) as op], comparators=[right]):
            known = [is_number(_named(machine, side, env)) for side in (left, right)]
            named = all(id_of(side) or attr_of(side) for side in (left, right))
            if named and known.count(True) == 1:
                return type(op) is ast.Eq
    return None


def asks_a_count(machine: Engine, expression: ast.expr, env: Env) -> bool:
    """Whether a test puts in order, or holds equal, what a loop has counted up: `count >= every`."""
    counted = machine.world.comparisons.counted
    if (
        not machine.world.position.iteration
        or not counted
        or not isinstance(expression, ast.Compare)
        or not isinstance(expression.ops[0], _ORDERS)
    ):
        return False
    sides = (expression.left, expression.comparators[0])
    if any(counted.grew(one) for side in sides for one in _measured(machine, side, env)):
        return True
    named = [(side, name) for side in sides for name in (id_of(side), attr_of(side)) if name]
    return any(_names(machine, side, one, name, env) for side, name in named for one in counted.owners(name))


def _names(machine: Engine, side: ast.expr, owner: Env | Instance | Dict, key: Hashable, env: Env) -> bool:
    """Whether a side of a test names what a loop has counted up: the variable, or an attribute of that name."""
    if isinstance(owner, Env):
        return id_of(side) == key and machine.home_of(id_of(side), env) is owner
    return isinstance(owner, Instance) and attr_of(side) == key


def _measured(machine: Engine, side: ast.expr, env: Env) -> tuple[Value, ...]:
    """Return the containers whose length a side of a test asks: `len(pending)`, `len(self.pending)`, and where an
    object measures itself, those that it holds.
    """
    match side:
        case ast.Call(func=ast.Name(id="len"), args=[given, *_]):
            owner = _named(machine, given, env)
            if machine.find_method(owner, "__len__") is not None:
                return tuple(attrs_of(owner).values())
            return (owner,) if owner is not None else ()
    return ()


def _named(machine: Engine, given: ast.expr, env: Env) -> Value:
    """Return the value of a name, or of an attribute of one ("self.pending"); None for any other expression."""
    match given:
        case ast.Attribute(value=ast.Name() as name, attr=attribute):
            owner = machine.eval(name, env)
            return attrs_of(owner).get(attribute)
        case ast.Name():
            return machine.eval(given, env)
    return None


def _equated(machine: Engine, expression: ast.expr, env: Env) -> bool | None:
    """Return what a test for equality of a tensor that has a graph and a constant comes to: they are hardly ever equal.

    None for other tests.
    """
    compared = syntax.equated(expression)
    if compared is None or not carry.has_graph(_named(machine, compared, env)):
        return None
    return isinstance(expression, ast.Compare) and isinstance(expression.ops[0], ast.NotEq)


def _taken_out(value: Value) -> tuple[int, ...]:
    """Return where the numbers that a test is worked out from were taken out of their graphs."""
    if isinstance(value, Tensor):
        return value.cuts
    tests = [value]
    if isinstance(value, Unknown) and value.origin.asks.negated is not None:
        tests.append(value.origin.asks.negated)
    for each in list(tests):
        if isinstance(each, Unknown) and each.origin.asks.compared is not None:
            tests += [each.origin.asks.compared[1], each.origin.asks.compared[2]]
    return merge_cuts(*[one.cuts for each in tests for one in unknowns.origins(each) if one.cuts])


def _recurses(node: ast.If, name: str) -> bool:
    """Whether the body of an `if` calls the function that it stands in."""
    return any(name_called(call) == name for part in node.body for call in of_kind(part, ast.Call))


def _test_chain(machine: Engine, expression: ast.Compare, env: Env, node: ast.AST, default: bool) -> bool:
    """Evaluate `a <= b < c`: one test after the other, each operand once."""
    for comparator, value in pairs(machine, expression, env):
        answer = known_truth(machine, value)
        if answer is None:
            # The place of a pair is that of its right side: each pair is a condition of its own.
            text = machine.world.position.notes.of(expression, syntax.text_of)
            hidden, usual = unknowns.hidden(machine, value), behaviour(value).by_default()
            answer = machine.world.choices.choose(comparator, default, text, node, hidden=hidden, usual=usual)
            settle(machine, value, answer)
        if not answer:
            return False
    return True


def known_truth(machine: Engine, value: Value) -> bool | None:
    """Whether a value is true; None where nobody knows."""
    value = asked(machine, value)
    if isinstance(value, Unknown):
        machine.world.knowledge.asked += 1
        if value.origin.asks.negated is not None:
            inner = known_truth(machine, value.origin.asks.negated)
            return None if inner is None else not inner
        if value.concrete is not None:
            return bool(value.concrete)
        if value.shown.truth is not None:
            return value.shown.truth
        if (nonzero := value.shown.nonzero()) is not None:
            return nonzero
        known = machine.world.knowledge.truths.get(expression(value)) if value.origin.operation is not None else None
        if known is None and value.node is None:
            known = consequences.consequence(machine, value)
        return known
    return behaviour(value).known_truth(machine)


def asked(machine: Engine, value: Value) -> Value:
    """Return what a test of a value asks: of a container that may be empty, how many elements it has."""
    value = unknowns.setting(machine, value)
    if type(value) is Tensor:
        value = value.noted_tensor(Mark.DATA_OF) or value
        number = machine.world.graph.asked(value)
        if machine.reads is not None and value.storage.known:
            machine.reads.append((value.storage.known, "number", number))
        return number
    if isinstance(value, Container) and value.known_truth(machine) is None:
        return value.size(machine, ast.Pass())
    return value


def settle(machine: Engine, value: Value, answer: bool) -> None:
    """Remember the answer given for an unknown condition, so that it is given again."""
    value = asked(machine, value)
    if isinstance(value, Unknown):
        if value.origin.asks.negated is not None:
            settle(machine, value.origin.asks.negated, not answer)
        else:
            value.shown = value.shown._replace(truth=answer)
            machine.world.knowledge.settled.update((id(one), one) for one in unknowns.origins(value))
            if value.origin.operation is not None:
                machine.world.knowledge.truths[expression(value)] = answer
            unknowns.settled(value, answer)
            if value.node is None:
                consequences.answered(machine, value, answer)


def pairs(machine: Engine, node: ast.Compare, env: Env) -> Iterator[tuple[ast.expr, Value]]:
    """Yield what each pair of a chain of comparisons comes to, with its right side; an operand is evaluated once."""
    left = machine.eval(node.left, env)
    for op, comparator in zip(node.ops, node.comparators):
        right = machine.eval(comparator, env)
        yield comparator, compare(machine, op, left, right, node)
        left = right


def compare(machine: Engine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    given, left, right = (left, right), unknowns.setting(machine, left), unknowns.setting(machine, right)
    if type(op) not in _IDENTITY:
        machine.operates(given, node)
    if type(op) in _RELATIONS:
        test = _relation(machine, op, left, right)
        if type(test) is Unknown and type(op) in _IDENTITY and Lib in map(type, given):
            # What a module has under a name is there, as a rule.
            test.default = Default(likely=type(op) is ast.IsNot)
        return test
    if Tensor in (type(left), type(right)):
        return _compare_tensors(machine, op, left, right, node)
    left, right = unknowns.resolved(machine, left, node), unknowns.resolved(machine, right, node)
    decides = deciding(left, right)
    if decides is Decides.CONSTANT:
        return _compare_constants(machine, op, left, right, node)
    if decides is Decides.UNKNOWN:
        return unknown_test(machine, op, left, right)
    result = _compare_objects(machine, op, left, right, node) if decides is Decides.INSTANCE else None
    if result is not None:
        return result
    if type(op) in (ast.Eq, ast.NotEq):
        same = equal(left, right, machine)
        if same is None:
            return Unknown.plain("test")
        return same if type(op) is ast.Eq else not same
    if Set in (type(left), type(right)):
        return algebra.set_comparison(op, left, right)
    return algebra.ordering(machine, op, left, right, node)


def _compare_tensors(machine: Engine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    test = machine.library.comparison(type(op).__name__, left, right, node)
    swapped = type(left) is not Tensor
    kind = _MIRRORED.get(type(op), type(op)) if swapped else type(op)
    never = unknowns.beyond(kind.__name__, concrete(left if swapped else right))
    number = machine.world.graph.asked(test) if never and type(test) is Tensor else None
    if type(number) is Unknown:
        number.shown = number.shown._replace(truth=False)
    return test


def _relation(machine: Engine, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Return what `is` or `in`, or the opposite of one, comes to."""
    identity = type(op) in _IDENTITY
    answer = identical(left, right) if identity else behaviour(right).contains(machine, concrete(left))
    if answer is None:
        return unknown_test(machine, op, left, right)
    return answer if type(op) in (ast.Is, ast.In) else not answer


def _compare_constants(machine: Engine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """Return a comparison of constants; numbers that are others each time are what a loop counts on."""
    if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
        comparisons = machine.world.comparisons
        seen = comparisons.operands.get(id(node))
        if seen is not None and seen != (left, right):
            comparisons.varying += 1
            comparisons.varied = node
        comparisons.operands[id(node)] = (left, right)
        comparisons.numbers = hash((comparisons.numbers, id(node), left, right))
    try:
        return _COMPARE[type(op)](left, right)
    except TypeError:
        if machine.expects("TypeError"):
            raise Signal("TypeError") from None
        return Unknown.plain("comparison")


def _by_method(machine: Engine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    name, reflected = _RICH[type(op)]
    for owner, other, wanted in ((left, right, name), (right, left, reflected)):
        method = machine.find_method(owner, wanted)
        if method is not None:
            result = machine.call(method, [other], {}, node)
            if not declines(result):
                return result
    return None


def _compare_objects(machine: Engine, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    """Return a comparison that an object's class sees to; None where it does not."""
    result = _by_method(machine, op, left, right, node)
    if result is not None:
        return result
    if type(op) is ast.NotEq:
        same = _compare_objects(machine, ast.Eq(), left, right, node)
        truth = None if same is None else known_truth(machine, same)
        if truth is not None:
            return not truth
    if type(op) is ast.Eq or not isinstance(left, Instance) or not isinstance(right, Instance):
        return None
    if type(op) is ast.NotEq or left.cls is None or left.cls is not right.cls or not left.cls.options.get("order"):
        return None
    return compare(machine, op, records.compared(left), records.compared(right), node)


def unknown_test(machine: Engine, op: ast.cmpop, left: Value, right: Value) -> Value:
    """Return an undecided comparison; the same question about the same unknown is the same value."""
    kind: type[ast.cmpop] = type(op)
    machine.world.knowledge.asked += 1
    if not isinstance(left, Unknown) and kind in _MIRRORED:
        left, right, kind = right, left, _MIRRORED[kind]
    if kind in _AS_IDENTITY and type(left) is Unknown and left.origin.operation == unknowns.TYPE_OF:
        left, right, kind = _of_type(left, right, kind)
    if unknowns.beyond(kind.__name__, right):
        never = Unknown.plain("test")
        never.shown = never.shown._replace(truth=False)
        return never
    positive = _NEGATED.get(kind, kind)
    key = (positive.__name__, expression(left), expression(right))
    value = machine.world.knowledge.known.get(key)
    if value is None:
        value = machine.world.knowledge.known[key] = _new_test(machine, positive, left, right)
        _answer_of_type(machine, value, left, right)
    if value.shown.truth is None and value.origin.asks.compared is not None:
        value.shown = value.shown._replace(truth=unknowns.decided(*value.origin.asks.compared))
    if value.shown.truth is None and _is_excluded(machine, *key):
        value.shown = value.shown._replace(truth=False)
    if positive is kind:
        return value
    result = Unknown.plain("not")
    result.origin = Origin(asks=Question(negated=value))
    if value.default.likely is not None:
        result.default = Default(likely=not value.default.likely)
    return result


def _of_type(left: Unknown, right: Value, kind: type[ast.cmpop]) -> tuple[Value, Value, type[ast.cmpop]]:
    """Return the sides of a question for the type of something, and what it asks of them.

    An object of a class that derives from the type is not meant: this is another question than `isinstance`.
    """
    asked_for = f"builtins.{right.name}" if type(right) is Native else behaviour(right).name_as_type()
    if not unknowns.is_plain(asked_for):
        return left, right, kind
    return left.origin.operands[0], (unknowns.TYPE_OF, asked_for), _AS_IDENTITY[kind]


def _is_excluded(machine: Engine, name: str, left: Hashable, right: Hashable) -> bool:
    """Return whether another of less, equal and greater is known to hold."""
    others = [other for other in _EXCLUSIVE if other != name] if name in _EXCLUSIVE else ()
    known = [machine.world.knowledge.known.get((other, left, right)) for other in others]
    return any(other is not None and known_truth(machine, other) for other in known)


def _new_test(machine: Engine, kind: type[ast.cmpop], left: Value, right: Value) -> Unknown:
    """Return a comparison that nothing has asked before, with what it likely comes to."""
    value = Unknown.plain("test")
    # The parts keep what the key speaks of alive.
    value.origin = Origin(f"test {kind.__name__}", (left, right))
    if not isinstance(left, Unknown):
        return value
    if is_constant(right):
        value.origin = value.origin._replace(asks=Question((kind.__name__, left, right)))
    if left.default.usual is not None:
        value.default = Default(_likely(machine, kind, left, left.default.usual[0], right))
    elif (likely := unknowns.unreached(kind.__name__, right)) is not None:
        value.default = Default(likely)
    elif left.origin.operation == "len" and right == 0:
        # What somebody asks the length of is not empty, as a rule.
        value.default = Default({"Eq": False, "Gt": True}.get(kind.__name__))
    return value


def _answer_of_type(machine: Engine, test: Unknown, left: Value, right: Value) -> None:
    """Answer what type a value has which hidden code gave as it was answered of what the same code gave before.

    A test for a type without graphs asks whether there is a value at all, like one for None: that may change.
    """
    called = left.origin.called if type(left) is Unknown else None
    kinds = unknowns.types_in(right)
    if called is None or kinds is None or any(map(unknowns.is_plain, kinds)):
        return
    key = ("given", expression(called), expression(right))
    before = machine.world.knowledge.known.setdefault(key, test)
    if before is not test:
        test.shown = test.shown._replace(truth=known_truth(machine, before))


def _likely(machine: Engine, kind: type[ast.cmpop], setting: Unknown, default: Value, other: Value) -> bool | None:
    """Return what a comparison of a setting likely comes to: by its default, unless an earlier test has ruled that out.

    A mode that is not the default one is then the first that the program asks for.
    """
    if kind in (ast.Eq, ast.In) and isinstance(default, str):
        asked = machine.world.knowledge.known.get(("Eq", expression(setting), expression(default)))
        if asked is not None and known_truth(machine, asked) is False:
            return True
    return _usually(kind, default, other)


def _usually(kind: type[ast.cmpop], default: Value, other: Value) -> bool | None:
    """Return what a comparison with the default of an argument comes to; None where that does not say."""
    if kind is ast.Is:
        return default is other if other is None or isinstance(other, bool) else None
    if kind is ast.In:
        if isinstance(other, List) and other.more:
            return None
        items = known_elements(other)
        return default in items if items is not None and all(map(is_constant, items)) else None
    if not is_constant(other) or kind not in _COMPARE:
        return None
    try:
        return bool(_COMPARE[kind](default, other))
    except TypeError:
        return None
