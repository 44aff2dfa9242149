"""Expressions: names, operators, displays, calls with their arguments."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Sequence

from tapecheck.interpret import limits
from tapecheck.interpret.engine import Engine
from tapecheck.interpret.objects import algebra, constants, exceptions, methods, syntax, unknowns
from tapecheck.interpret.python import comprehensions, conditions, raising
from tapecheck.interpret.state import Place
from tapecheck.interpret.values import (
    MORE,
    MORE_KEYWORDS,
    PICKED,
    Args,
    ByKind,
    Decides,
    Dict,
    Env,
    Instance,
    Kept,
    Kwargs,
    Lib,
    List,
    Origin,
    Question,
    Range,
    Set,
    Signal,
    Super,
    Tensor,
    Unknown,
    Value,
    behaviour,
    can_hold,
    concrete,
    deciding,
    declines,
    drawn_from,
    has_written_bounds,
    hashable,
    is_unseen,
    known_elements,
    loaded,
    only,
    path_of,
    perhaps_overwritten,
    rest_of,
    stored,
    unwrapped,
    with_numbers,
)
from tapecheck.source.nodes import attr_of
from tapecheck.source.skipped import SKIPPED, TEXT, is_call

_BINARY: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_DUNDER = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
_ANYTHING = frozenset(("__builtins__", "__import__", "compile", "eval", "exec"))
"""Builtins whose results may be anything in the program."""
_BUILT_IN: dict[str, Value] = {
    **{
        name: Lib(f"builtins.{name}")
        for name in (*exceptions.NAMES, *dir(builtins), "__annotations__", "__loader__", "__package__", "__spec__")
    },
    "Ellipsis": ..., "__debug__": True, SKIPPED: Lib(TEXT),
}  # fmt: skip
"""What Python's own names stand for that have no model."""


def _name(machine: Engine, node: ast.Name, env: Env) -> Value:
    name = node.id
    scope: Env | None = env if name not in env.names_global else env.globals
    while scope is not None:
        if name in scope.vars:
            value = scope.vars[name]
            slot = scope.slots.get(name)
            if slot is not None:
                loaded(machine, slot)
            if scope is not env and machine.reads is not None:
                machine.reads.append((scope.vars, name, value))
            return value
        scope = scope.parent
    known = machine.library.builtins
    if name in known:
        return known[name]
    if name in _ANYTHING:
        return Unknown(name)
    return _BUILT_IN[name] if name in _BUILT_IN else _unbound(machine, node, env)


def _unbound(machine: Engine, node: ast.Name, env: Env) -> Value:
    """Return what a name stands for that neither the program nor Python binds: a library may, which all comes from."""
    name, libraries = node.id, env.globals.starred
    for path in filter(None, map(path_of, libraries or ())):
        found = machine.library.known_name(path, name)
        if found is not None:
            return found
    value = Unknown.named(name)
    if libraries is None:
        kind = "NameError" if env is env.globals else "UnboundLocalError"
        if syntax.unmade(machine, node) and not machine.world.choices.goes_past(machine.world.position.place(node)):
            # As where the last `elif` has an `else` that raises: no run answers the conditions as this way does.
            raise Signal(kind)
        machine.wrong(kind, node)
        machine.world.omissions.missing[id(value)] = value
    env.globals.vars[name] = value
    return value


def _attribute(machine: Engine, node: ast.Attribute, env: Env) -> Value:
    return machine.get_attribute(machine.eval(node.value, env), node.attr, node)


def _subscript(machine: Engine, node: ast.Subscript, env: Env) -> Value:
    value, index = machine.eval(node.value, env), machine.eval(node.slice, env)
    if not isinstance(index, slice):
        raising.of_item(machine, value, index)
        return machine.get_item(value, index, node)
    part = machine.get_item(unknowns.setting(machine, value), index, node)
    if isinstance(part, (List, Range, tuple)) and not has_written_bounds(node):
        count = behaviour(part).size(machine, node)
        if isinstance(count, int):
            machine.world.choices.goes_over(node, count, part=True)
    return part


def _slice(machine: Engine, node: ast.Slice, env: Env) -> Value:
    parts = [machine.eval(part, env) if part is not None else None for part in (node.lower, node.upper, node.step)]
    return slice(*parts)


def _call(machine: Engine, node: ast.Call, env: Env) -> Value:
    world = machine.world
    world.budget.spend(limits.CALL_WORK)
    called = node.func
    if is_call(node):
        return _skipped(machine, node, env)
    if type(called) is ast.Name and called.id == "super" and "super" not in env.vars:
        return _super(machine, node, env)
    if type(called) is ast.Attribute and called.attr in _CLEARING:
        _not_read(machine, called.value)
    function = machine.eval(called, env)
    args, kwargs = _given(machine, node, env)
    if function is machine.library.builtins.get("locals") and env is not env.globals:
        return Dict(dict(env.vars.items()), more=True)
    if type(function) is Unknown and type(called) is ast.Attribute and type(called.value) is ast.Name:
        _hands_over_receiver(machine, function, machine.eval(called.value, env), called.attr, node)
    raising.of_call(machine, function)
    return machine.call(function, args, kwargs, node)


def _hands_over_receiver(machine: Engine, function: Unknown, receiver: Value, name: str, node: ast.Call) -> None:
    """Note what code that is not visible gets of the object that it is called as a method of."""
    is_model = function.part_of.within is not None or function.kept.leaf is not None
    if not isinstance(receiver, Instance) or (is_model and name in receiver.attrs):
        return
    if name in receiver.slots:
        machine.library.calls_kept(receiver, name, node)
    else:
        # A method of a base class that was not found has the whole object; a model that is kept has not.
        machine.library.given_away([receiver], node, name)


def _skipped(machine: Engine, node: ast.Call, env: Env) -> Value:
    """Call what stands for text that does not parse, with what its names are bound to; the others may be words."""
    bound: list[Value] = []
    anything = bool(node.keywords)
    for part in only(node.args, ast.Name):
        scope: Env | None = env
        while scope is not None and part.id not in scope.vars:
            scope = scope.parent
        if scope is not None:
            bound.append(machine.eval(part, env))
        elif part.id not in machine.library.builtins and part.id not in _BUILT_IN:
            anything = anything or bool(env.globals.starred)
        else:
            anything = anything or part.id in _ANYTHING
    return machine.call(_BUILT_IN[SKIPPED], bound, {"anything": True} if anything else {}, node)


def lone(machine: Engine, node: ast.Name | ast.Attribute, env: Env) -> None:
    """Run a statement that is a name: one which nothing has stands for text that is being typed."""
    if isinstance(node, ast.Name):
        machine.eval(node, env)
        if machine.world.omissions.is_unbound(node):
            machine.call(_BUILT_IN[SKIPPED], [], {"anything": True}, node)
        return
    owner = machine.eval(node.value, env)
    if not machine.expects("AttributeError") and behaviour(owner).may_lack(machine, node.attr, node):
        machine.call(_BUILT_IN[SKIPPED], [owner], {"anything": True}, node)
    else:
        machine.get_attribute(owner, node.attr, node)
        machine.library.left_uncalled(owner, node)


def _given(machine: Engine, node: ast.Call, env: Env) -> tuple[Args, Kwargs]:
    """Return what a call passes; `MORE_KEYWORDS` among the keywords where there may be more."""
    args: Args = []
    kwargs: Kwargs = {}
    partly: list[Value] = []
    """What is passed with a star, and may pass more than is known."""
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            value = machine.eval(argument.value, env)
            items, whole = _spread(machine, value, argument)
            args += items
            partly += () if whole else (value,)
        else:
            args.append(machine.eval(argument, env))
    for keyword in node.keywords:
        value = machine.eval(keyword.value, env)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
            continue
        value = unwrapped(value)
        if isinstance(value, Dict):
            kwargs.update(value.named())
            partly += (value,) if value.more or value.unsure_keys() else ()
        else:
            partly.append(value)
    if partly:
        unseen = list(filter(is_unseen, partly))
        kwargs[MORE_KEYWORDS] = unseen[-1] if unseen else _under_other_keys(only(partly, Dict))
    return args, kwargs


def _under_other_keys(passed: Sequence[Dict]) -> Unknown:
    """Return what stands for the keywords of a call that are not seen: what dicts have under keys nobody knows."""
    made = Unknown(MORE_KEYWORDS)
    made.kept = Kept(values=tuple(one for one in passed if one.unsure_keys()))
    return made


def _spread(machine: Engine, value: Value, argument: ast.Starred) -> tuple[Sequence[Value], bool]:
    """Return what `*value` passes, and whether that is all; the value itself where nothing is known of it."""
    machine.operates((value,), argument)
    items = behaviour(value).known_items(machine, argument)
    if items is not None:
        return items, True
    if isinstance(value, List) and value.items:
        # Of a list that may have more elements, those that are known are passed first.
        return value.items, False
    return ([], True) if machine.takes_nothing(argument) else ([value], False)


_CLEARING = frozenset(("zero_", "detach_", "requires_grad_"))


def _not_read(machine: Engine, expression: ast.expr) -> None:
    """Mark `p.grad` where it is only tested for being there or cleared."""
    match expression:
        case ast.Attribute(value=inner, attr="data"):
            expression = inner
    if attr_of(expression) == "grad":
        machine.unread.add(expression)


def _super(machine: Engine, node: ast.Call, env: Env) -> Value:
    scope: Env | None = env
    while scope is not None:
        if scope.cell is not None:
            cls, receiver = scope.cell
            return Super(receiver, cls)
        scope = scope.parent
    return Unknown("super")


def _bin_op(machine: Engine, node: ast.BinOp, env: Env) -> Value:
    left, right = machine.eval(node.left, env), machine.eval(node.right, env)
    raising.of_division(machine, node.op, right)
    machine.operates((left, right), node)
    return drawn_from(binary(machine, node.op, left, right, node), (left, right))


def binary(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    if Tensor in (type(left), type(right)):
        if type(left) is str and type(op) is ast.Mod:
            return Unknown.text()
        _note_refused(machine, left, right, node)
        result = _dunder(machine, op, left, right, node) if Instance in (type(left), type(right)) else None
        return machine.library.operator(type(op).__name__, left, right, node) if result is None else result
    left, right = concrete(left), concrete(right)
    decides = deciding(left, right)
    if decides is Decides.CONSTANT:
        if (left is None or right is None) and not machine.expects("TypeError"):
            machine.doubt("TypeError", node)
            missing = Unknown.named("None")
            machine.world.omissions.missing[id(missing)] = missing
            return missing
        return constants.arithmetic(machine, op, _BINARY.get(type(op)), left, right)
    if decides is Decides.UNKNOWN:
        return _with_unknown(machine, op, left, right, node)
    result = _dunder(machine, op, left, right, node) if decides is Decides.INSTANCE else None
    return algebra.container_operator(machine, op, left, right, node) if result is None else result


def _note_refused(machine: Engine, left: Value, right: Value, node: ast.AST) -> None:
    """Note where a tensor computes nothing with what is on the other side: with None, or with a list.

    What requires grad, or is computed with what does, is no whole number that a list can be repeated by.
    """
    if (left is None or right is None) and not machine.expects("TypeError"):
        machine.library.lost_gradient("TypeError", node)
    sides = only((left, right), List)
    if sides and any(one.graph == "yes" for one in only((left, right, *sides[0].items), Tensor)):
        machine.wrong("TypeError", node)


def _with_unknown(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    if str in (type(left), type(right)):
        return _text_of((left, right), (left, right) if type(op) is ast.Add else ())
    if type(op) is ast.Mod and isinstance(left, int) and isinstance(right, Unknown) and isinstance(node, ast.BinOp):
        unknowns.keep_default(machine.world, right, node.right)
        if right.concrete is not None:
            return binary(machine, op, left, right, node)
    remainder = type(op) in (ast.Mod, ast.FloorDiv) and type(left) is int and left == 0
    if remainder and isinstance(right, Unknown) and right.node is None:
        # The first iteration of `if i % args.every == 0`, whatever that number is.
        return 0
    if type(op) is ast.Mult and _repeats(left, right):
        return algebra.container_operator(machine, op, left, right, node)
    return machine.library.unknown_operator(type(op).__name__, left, right, node)


def _repeats(left: Value, right: Value) -> bool:
    """Whether a product repeats a list or tuple so often as nobody knows."""
    sequence, count = (left, right) if isinstance(right, Unknown) else (right, left)
    return known_elements(sequence) is not None and isinstance(count, Unknown) and count.trust.data


def written(machine: Engine, node: ast.expr, env: Env) -> Value:
    """Return what a statement stores or returns: what is still to be written may be anything."""
    return Unknown("...") if syntax.is_placeholder(node) else machine.eval(node, env)


def augment(machine: Engine, node: ast.AugAssign, current: Value, value: Value) -> Value:
    machine.operates((current, value), node)
    if isinstance(current, Tensor):
        return machine.library.augmented(type(node.op).__name__, current, value, node)
    if algebra.augment(machine, node.op, current, value, node):
        return current
    method = behaviour(current).operator_method(machine, f"__i{_DUNDER.get(type(node.op), '')}__", node)
    return binary(machine, node.op, current, value, node) if method is None else machine.call(method, [value], {}, node)


def _dunder(machine: Engine, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    name = _DUNDER.get(type(op), "")
    for owner, prefix, other in ((left, "__", right), (right, "__r", left)):
        method = behaviour(owner).operator_method(machine, f"{prefix}{name}__", node)
        if method is not None and not declines(result := machine.call(method, [other], {}, node)):
            return result
    return None


def _not(machine: Engine, value: Value) -> Value:
    value = conditions.asked(machine, value)
    truth = machine.known_truth(value)
    if truth is not None:
        return not truth
    result = Unknown.plain("not")
    if isinstance(value, Unknown):
        result.origin = Origin(asks=Question(negated=value))
    return result


def _unary_op(machine: Engine, node: ast.UnaryOp, env: Env) -> Value:
    value = concrete(machine.eval(node.operand, env))
    if type(node.op) is ast.Not:
        return _not(machine, value)
    machine.operates((value,), node)
    return behaviour(value).unary(machine, type(node.op).__name__, node)


def _bool_op(machine: Engine, node: ast.BoolOp, env: Env) -> Value:
    wanted = isinstance(node.op, ast.Or)
    value: Value = None
    places: list[Place] = []
    other: list[ast.expr] = []
    for index, part in enumerate(node.values):
        value = machine.eval(part, env)
        truth = machine.known_truth(value)
        if truth is None:
            if index == len(node.values) - 1:
                break
            text = machine.world.position.notes.of(part, syntax.text_of)
            default = not wanted if isinstance(value, Tensor) else True
            hidden, usual = unknowns.hidden(machine, value), behaviour(value).by_default()
            flag = conditions.flag_asked(machine, part, env) if usual is None else None
            last, default = (False, default) if flag is None else (flag[0].last, flag[1])
            truth = machine.world.choices.choose(part, default, text, likelier=last, hidden=hidden, usual=usual)
            machine.world.choices.note_flag(flag, truth)
            if hidden or usual is not None:
                machine.world.choices.answers(unknowns.origins(unknowns.asked(value)))
            machine.settle(value, truth)
            places.append(machine.world.choices.answered[-1])
            other = node.values[index + 1 :] if truth == wanted else [part]
        else:
            machine.world.choices.came_out.add((part, truth))
        if truth == wanted:
            break
    if places and machine.world.watcher is not None:
        machine.world.watcher.chosen(machine.world, node, other, value, places, env)
    return value


def _compare(machine: Engine, node: ast.Compare, env: Env) -> Value:
    if len(node.ops) == 1:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            _not_read(machine, node.left)
        return machine.compare(node.ops[0], machine.eval(node.left, env), machine.eval(node.comparators[0], env), node)
    result: Value = True
    undecided: list[Value] = []
    for _, result in conditions.pairs(machine, node, env):
        truth = machine.known_truth(result)
        if truth is False:
            return False
        if truth is None:
            undecided.append(result)
    # Where several pairs are open, the answer of the whole says nothing of one of them.
    return result if not undecided else (undecided[0] if len(undecided) == 1 else Unknown.plain("test"))


def _if_exp(machine: Engine, node: ast.IfExp, env: Env) -> Value:
    world = machine.world
    answered = len(world.choices.answered)
    world.choices.passed.setdefault(node, world.position.frames[-1].file)
    answer = machine.test(node.test, env, node)
    world.choices.came_out.add((node, answer))
    taken, other = (node.body, node.orelse) if answer else (node.orelse, node.body)
    places = world.choices.answered[answered:]
    value = machine.eval(taken, env)
    if places and world.watcher is not None:
        world.watcher.chosen(world, node, (other,), value, places, env)
    return value


def _elements(
    machine: Engine, nodes: list[ast.expr], env: Env, places: list[tuple[int, Value]] | None = None
) -> tuple[list[Value], int]:
    """Return the elements of a display and what else is in it; `places` takes where those of a starred value begin."""
    items: list[Value] = []
    more = 0
    for node in nodes:
        if isinstance(node, ast.Starred):
            value = machine.eval(node.value, env)
            machine.operates((value,), node)
            known = behaviour(value).known_items(machine, node)
            if known is None and machine.takes_nothing(node):
                continue
            if known is None:
                more |= rest_of(value)
                picked = rest_of(value) & PICKED
                items += (
                    machine.gathered(value, node)[0] if picked else behaviour(value).guessed_items(machine, 1, node)
                )
            else:
                if places is not None:
                    places.append((len(items), value))
                items.extend(known)
        else:
            items.append(machine.eval(node, env))
    return items, more


def _tuple(machine: Engine, node: ast.Tuple, env: Env) -> Value:
    items, more = _elements(machine, node.elts, env)
    return List(items, with_numbers(more, items)) if more else tuple(items)


def _list(machine: Engine, node: ast.List, env: Env) -> Value:
    places: list[tuple[int, Value]] = []
    items, more = _elements(machine, node.elts, env, places)
    return algebra.with_parts(machine.new_list(items, node, more), places)


def _set(machine: Engine, node: ast.Set, env: Env) -> Value:
    items, more = _elements(machine, node.elts, env)
    return Set(methods.distinct(items), more)


def _dict(machine: Engine, node: ast.Dict, env: Env) -> Value:
    result = Dict({}, born=machine.world.position.clock)
    for key_node, value_node in zip(node.keys, node.values):
        value = machine.eval(value_node, env)
        if key_node is None:
            algebra.spread_over(machine, result, value, value_node)
            if isinstance(value, Dict):
                result.items.update(value.items)
                result.more |= value.more
            else:
                result.more |= MORE
                perhaps_overwritten(machine, result.items, value, value_node)
            continue
        key = hashable(machine.eval(key_node, env))
        result.items[key] = value
        if can_hold(value):
            stored(machine, result.slots, key, value_node)
    return result


def _lambda(machine: Engine, node: ast.Lambda, env: Env) -> Value:
    return machine.make_function(node, env, "<lambda>")


def _joined(machine: Engine, node: ast.JoinedStr, env: Env) -> Value:
    parts = [machine.eval(part, env) for part in node.values]
    texts = only(parts, str)
    if len(texts) == len(parts):
        return "".join(texts)
    return _text_of(parts, parts)


def _text_of(parts: Sequence[Value], joined: Sequence[Value]) -> Value:
    """Return a text that hangs on some parts, which is these `joined` where the options among them have defaults."""
    made = Unknown.text()
    unknowns.usually_joined(made, joined)
    return drawn_from(made, parts)


def _formatted(machine: Engine, node: ast.FormattedValue, env: Env) -> Value:
    value = machine.eval(node.value, env)
    spec = machine.eval(node.format_spec, env) if node.format_spec is not None else ""
    if spec == "" and node.conversion < 0 and unknowns.has_default(concrete(value)):
        return _text_of((value,), (value,))
    return drawn_from(constants.formatted(machine, value, spec, node.conversion, node), (value,))


def _named(machine: Engine, node: ast.NamedExpr, env: Env) -> Value:
    value = machine.eval(node.value, env)
    while env.inner and env.parent is not None:
        env = env.parent
    machine.store_name(node.target.id, value, env, node)
    return value


def _yielded(machine: Engine, node: ast.AST, env: Env) -> Value:
    return Unknown("yield") if env.sent is None else env.sent.get(node)


EVALUATE: ByKind[Engine, [Env], Value] = ByKind()
"""How each expression is evaluated."""
EVALUATE.register(lambda machine, node, env: node.value, ast.Constant)
EVALUATE.register(_name, ast.Name)
EVALUATE.register(_attribute, ast.Attribute)
EVALUATE.register(_call, ast.Call)
EVALUATE.register(_bin_op, ast.BinOp)
EVALUATE.register(_unary_op, ast.UnaryOp)
EVALUATE.register(_bool_op, ast.BoolOp)
EVALUATE.register(_compare, ast.Compare)
EVALUATE.register(_if_exp, ast.IfExp)
EVALUATE.register(_tuple, ast.Tuple)
EVALUATE.register(_list, ast.List)
EVALUATE.register(_set, ast.Set)
EVALUATE.register(_dict, ast.Dict)
EVALUATE.register(_subscript, ast.Subscript)
EVALUATE.register(_slice, ast.Slice)
EVALUATE.register(_lambda, ast.Lambda)
EVALUATE.register(comprehensions.list_comprehension, ast.ListComp)
EVALUATE.register(comprehensions.list_comprehension, ast.SetComp)
EVALUATE.register(comprehensions.generator_expression, ast.GeneratorExp)
EVALUATE.register(comprehensions.dict_comprehension, ast.DictComp)
EVALUATE.register(_joined, ast.JoinedStr)
EVALUATE.register(_formatted, ast.FormattedValue)
EVALUATE.register(_named, ast.NamedExpr)
EVALUATE.register(lambda machine, node, env: machine.eval(node.value, env), ast.Starred)
EVALUATE.register(lambda machine, node, env: machine.eval(node.value, env), ast.Await)
EVALUATE.register(_yielded, ast.Yield)
EVALUATE.register(_yielded, ast.YieldFrom)
