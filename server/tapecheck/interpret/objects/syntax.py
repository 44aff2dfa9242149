"""What the text of a program says without being run: names, yields, likely branches.

What is asked of a node often is asked of the notes of its file (`world.notes.of(node, has_yield)`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tapecheck.interpret.engine import Engine
from tapecheck.interpret.values import only
from tapecheck.source.nodes import attr_of, children, id_of, method_called, negated, of_kind, stored_to, walk
from tapecheck.source.notes import placeless

NUMERIC = frozenset(("jax", "jnp", "json", "math", "np", "numpy", "os", "random", "time"))
"""Modules that make no tensors."""
_OUT_OF_TENSORS = frozenset(("item", "numpy", "tolist"))
_SPACES = frozenset(("action_space", "single_action_space"))
"""What gymnasium's environments draw numbers from."""
_EXITS = frozenset((("sys", "exit"), ("os", "_exit")))


def root_of(node: ast.expr) -> str:
    """Return the name that a chain of attributes, calls and elements begins with, empty where it is none."""
    while True:
        match node:
            case ast.Call(func=node) | ast.Attribute(value=node) | ast.Subscript(value=node):
                pass
            case _:
                return getattr(node, "id", "")


def is_placeholder(node: ast.expr) -> bool:
    """Whether an expression stands for what is still to be written: `loss = ...`."""
    return isinstance(node, ast.Constant) and node.value is ...


def is_array(node: ast.expr) -> bool:
    """Whether an expression is a number or an array that no dry run knows: `np.array(...)`, `x.argmax().item()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)):
            if attr in _OUT_OF_TENSORS or (attr == "sample" and getattr(value, "attr", "") in _SPACES):
                return True
    return root_of(node) in NUMERIC


def _only_draws(body: list[ast.stmt]) -> bool:
    """Whether code does nothing but give names numbers or arrays."""
    return all(isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value and is_array(one.value) for one in body)


@placeless
def positional_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[str]:
    """Return the names of the parameters that take arguments by their place."""
    return [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]


@placeless
def attributes_in_methods(node: ast.ClassDef) -> frozenset[str] | None:
    """Return the names of the attributes in the methods of a class but its `__init__`; None where they hand on the
    object as a whole, so that others may read any.
    """
    found: set[str] = set()
    for method in of_kind(node, ast.FunctionDef):
        if method.name == "__init__":
            continue
        own = {one.arg for one in (*method.args.posonlyargs, *method.args.args)[:1]}
        owners = [part.value for part in ast.walk(method) if isinstance(part, ast.Attribute)]
        if any(isinstance(part, ast.Name) and part.id in own and part not in owners for part in ast.walk(method)):
            return None
        found.update(part.attr for part in ast.walk(method) if isinstance(part, ast.Attribute))
    return None if "__dict__" in found else frozenset(found)


@placeless
def needs_more_than_none(function: ast.AST) -> tuple[str, ...]:
    """Return the parameters with a default of None of which a function reads a part, or that it calls or unpacks,
    without ever asking whether they were given.
    """
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ()
    left_out = _none_by_default(function.args)
    if not left_out:
        return ()
    parts = [part for statement in function.body for part in ast.walk(statement)]
    called = _called_as(left_out, parts)
    asked = {ast.unparse(one) for part in parts for test in _tests_in(part) for one in ast.walk(test) if _is_path(one)}
    read = {ast.unparse(one) for part in parts for one in _read_in(part)}
    stored = {part.id for part in parts if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)}
    return tuple(
        name
        for name, paths in called.items()
        if name not in stored and not paths.isdisjoint(read) and paths.isdisjoint(asked)
    )


def _none_by_default(arguments: ast.arguments) -> list[str]:
    """Return the parameters with a default of None."""
    names = [*arguments.posonlyargs, *arguments.args]
    given = [*zip(names[::-1], arguments.defaults[::-1]), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [one.arg for one, default in given if isinstance(default, ast.Constant) and default.value is None]


def _called_as(names: Iterable[str], parts: Iterable[ast.AST]) -> dict[str, set[str]]:
    """Return the paths under which assignments have put what each of some names stands for, itself among them."""
    called = {name: {name} for name in names}
    for part in parts:
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name) and part.value.id in called:
            called[part.value.id].update(ast.unparse(target) for target in part.targets)
    return called


def _is_path(part: ast.AST) -> bool:
    return isinstance(part, (ast.Name, ast.Attribute))


def _tests_in(part: ast.AST) -> Iterator[ast.expr]:
    """Yield what a part of a function tests by itself."""
    match part:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
            yield test
        case ast.BoolOp() | ast.Compare():
            yield part
        case ast.Match(subject=subject):
            yield subject


def _read_in(part: ast.AST) -> Iterator[ast.expr]:
    """Yield what a part of a function raises for where it is None."""
    match part:
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Call(func=value) | ast.Starred(value=value):
            yield value
        case ast.Assign(targets=[ast.Tuple() | ast.List(), *_], value=value):
            yield value


@placeless
def follows_texts(loop: ast.AST) -> bool:
    """Whether conditions in the body of a loop ask which text its element is, or has: each is an instruction."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return False
    names = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
    tests = [part.test for one in loop.body for part in ast.walk(one) if isinstance(part, (ast.If, ast.IfExp))]
    tests += [part.subject for one in loop.body for part in ast.walk(one) if isinstance(part, ast.Match)]
    return any(_asks_text_of(test, names) for test in tests)


def _asks_text_of(test: ast.expr, names: set[str]) -> bool:
    parts = [*ast.walk(test)]
    texts = any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in parts)
    named = any(isinstance(part, ast.Name) and part.id in names for part in parts)
    return named and (texts or isinstance(test, ast.Name))


@placeless
def default_branch(node: ast.AST) -> bool:
    """Return the likelier answer of an undecided `if`: not the one that only leaves, nor the one that only draws."""
    match node:
        case ast.If(body=body, orelse=[_, *_] as other) if _only_draws(body) and not _only_draws(other):
            # An action at random, or the one that the model takes.
            return False
        case ast.If(body=[*_, ast.Raise() | ast.Continue() | ast.Break()]):
            return False
        case ast.If(body=body) if any(map(_exits, body)):
            # Whatever is written behind that.
            return False
        case ast.If(body=[*before, ast.Return()], orelse=other):
            # A message says why it leaves.
            return bool(other) or not all(isinstance(one, ast.Expr) and _says(one.value) for one in before)
    return True


def _exits(statement: ast.stmt) -> bool:
    """Whether a statement calls what ends the program, as far as its text says."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name in ("exit", "quit")
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name))):
            return (owner, name) in _EXITS
    return False


def only_ends(body: list[ast.stmt]) -> bool:
    """Whether a branch does nothing but say something and end the program."""
    if not body or not (isinstance(body[-1], ast.Raise) or _exits(body[-1])):
        return False
    return all(isinstance(one, ast.Expr) and _says(one.value) for one in body[:-1])


def _says(call: ast.expr) -> bool:
    """Whether an expression only gives texts to `print` or to a method, as that of a logger."""
    if not isinstance(call, ast.Call) or id_of(call.func) not in ("print", "") or not call.args:
        return False
    return all(isinstance(part, (ast.Constant, ast.JoinedStr)) for part in call.args)


def asks_for_accelerator(test: ast.expr) -> bool:
    """Whether a test asks nothing but whether something is available, or is not: `not torch.cuda.is_available()`."""
    asked = negated(test) or test
    return attr_of(getattr(asked, "func", None)) == "is_available" and not getattr(asked, "args", None)


def equated(test: ast.expr) -> ast.Name | ast.Attribute | None:
    """Return what a test asks to be equal to a constant, or not to be: a name or an attribute."""
    match test:
        case ast.Compare(
            left=ast.Name() | ast.Attribute() as left, ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant()]
        ):
            return left
    return None


def counted_names(node: ast.AST) -> set[str]:
    """Return the names that a loop's body counts up (`k += 1`, `k = k + 1`)."""
    found: set[str] = set()
    for child in walk(node):
        match child:
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets, value=ast.BinOp() as value):
                used = {part.id for part in of_kind(value, ast.Name)}
                found |= set(map(id_of, targets)) & used
    return found


def target_of(node: ast.AST, machine: Engine) -> str:
    """Return what the program calls the value of an expression: the target of its assignment, or
    the list that it extends.
    """
    match node:
        case ast.Call(func=ast.Attribute(value=extended, attr="extend")):
            return text_of(extended)
    module = machine.module_of(machine.envs[-1])
    if module.source is not None:
        for statement in walk(module.source.tree):
            targets = stored_to(statement)
            if targets and node in _operands(getattr(statement, "value", None)):
                return text_of(targets[0])
    return ""


def _operands(value: ast.expr | None) -> list[ast.AST]:
    """Return a value and what it is computed of by operators."""
    found: list[ast.AST] = [] if value is None else [value]
    for node in found:
        if isinstance(node, ast.BinOp):
            found += [node.left, node.right]
    return found


def text_of(node: ast.AST) -> str:
    """Return the source of a node without backticks, which would end quotes in messages."""
    return ast.unparse(node).replace("`", "'")


def end_of(node: ast.AST) -> ast.AST:
    """Return what stands for the end of a piece of code, where nothing else that is asked of begins."""
    line, column = getattr(node, "end_lineno", None) or 1, (getattr(node, "end_col_offset", None) or 1) - 1
    return ast.Pass(lineno=line, col_offset=column, end_lineno=line, end_col_offset=column + 1)


def _body(node: ast.AST) -> list[ast.AST]:
    """Return the statements of a function; none of a lambda."""
    return [] if isinstance(node, ast.Lambda) else list(getattr(node, "body", []))


@placeless
def has_yield(node: ast.AST) -> bool:
    """Whether a function's own body yields (nested functions aside); a lambda's does not."""
    stack: list[ast.AST] = _body(node)
    while stack:
        current = stack.pop()
        if isinstance(current, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(children(current))
    return False


@placeless
def is_abstract(node: ast.AST) -> bool:
    """Whether a method is there to be written by subclasses: it says so, or does nothing but raise."""
    body = _body(node)
    if body and type(body[0]) is ast.Expr and _says_nothing(body[0]):
        body = body[1:]
    match body:
        case [ast.Raise(exc=ast.expr() as raised)] if text_of(raised).partition("(")[0] == "NotImplementedError":
            return True
    named = {text_of(decorator).rpartition(".")[2] for decorator in getattr(node, "decorator_list", [])}
    return "abstractmethod" in named and all(map(_says_nothing, body))


def _says_nothing(statement: ast.AST) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
    return False


def called_in(tree: ast.AST) -> frozenset[int]:
    """Return the ids of the attributes in a file that are called where they are read."""
    return frozenset(id(part.func) for part in only(walk(tree), ast.Call))


@placeless
def named_in(tree: ast.AST) -> frozenset[str]:
    """Return what a file names: bare names that are read, attributes, and texts, which may be names."""
    found: set[str] = set()
    for part in walk(tree):
        match part:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                found.add(name)
    return frozenset(found)


@placeless
def is_unwritten(node: ast.AST) -> bool:
    """Whether a method does nothing yet: it returns an argument as it is, or nothing at all."""
    if not isinstance(node, ast.FunctionDef):
        return False
    taken = [argument.arg for argument in node.args.args]
    return all(_says_nothing(one) or _returned_name(one) in taken for one in node.body)


def _returned_name(statement: ast.stmt) -> str | None:
    """Return the name that a statement returns; None of any other statement."""
    match statement:
        case ast.Return(value=ast.Name(id=name)):
            return name
    return None


@placeless
def yields_guarded(node: ast.AST) -> bool:
    """Whether a generator function yields inside of a `with` or a `try`."""
    return not isinstance(node, ast.Lambda) and any(
        isinstance(inner, (ast.With, ast.AsyncWith, ast.Try)) and has_yield(inner) for inner in walk(node)
    )


def yields_of(node: ast.stmt) -> tuple[ast.Yield | ast.YieldFrom, ...]:
    """Return the yields that a statement comes to before its blocks, in the order in which they are evaluated."""
    heads: list[ast.AST]
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Try() | ast.While():
            heads = []
        case ast.Match(subject=subject):
            heads = [subject]
        case _:
            heads = [child for child in children(node) if not isinstance(child, ast.stmt)]
    return tuple(found for head in heads for found in yields_in(head))


def yields_in(node: ast.AST) -> list[ast.Yield | ast.YieldFrom]:
    """Return the yields in an expression, inner ones first."""
    if isinstance(node, (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)):
        return []
    found = [inner for child in children(node) for inner in yields_in(child)]
    return [*found, node] if isinstance(node, (ast.Yield, ast.YieldFrom)) else found


@dataclass(slots=True)
class Makes:
    """What a statement and all within it may bring into being: names, attributes, keys; `leaves` where it jumps."""

    names: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    keys: set[object] = field(default_factory=set)
    any_key: bool = False
    leaves: bool = False


_FILLING = frozenset(("fromkeys", "setdefault", "update"))


def makes(statement: ast.AST) -> Makes:
    """Return what a statement may bring into being."""
    found = Makes()
    for node in walk(statement):
        match node:
            case ast.Name(ctx=ast.Store()):
                found.names.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.names.add(node.name)
            case ast.alias():
                found.names.add((node.asname or node.name).split(".")[0])
            case ast.Attribute(ctx=ast.Store()):
                found.attributes.add(node.attr)
            case ast.Subscript(slice=ast.Constant(value=key), ctx=ast.Store()):
                found.keys.add(key)
            case ast.Subscript(ctx=ast.Store()):
                found.any_key = True
            case ast.Call(func=ast.Attribute(attr=attr)):
                found.any_key = found.any_key or attr in _FILLING
            case ast.Break() | ast.Continue() | ast.Return() | ast.Raise():
                found.leaves = True
    return found


def missed(machine: Engine, node: ast.AST) -> bool:
    """Return whether what an expression lacks may have been made on the side of a condition that was not taken.

    Args:
        machine: the program being run, which knows the statements whose conditions nobody could decide.
        node: the name, attribute or subscript that an exception is about.
    """
    world = machine.world
    told = [world.position.notes.of(statement, makes) for statement in world.choices.guesses]
    match node:
        case ast.Name(id=name):
            return any(name in one.names or one.leaves for one in told)
        case ast.Attribute(value=base, attr=name):
            own = getattr(base, "id", getattr(base, "attr", ""))
            return any(name in one.attributes or own in one.names or own in one.attributes for one in told)
        case ast.Subscript(slice=place):
            key = place.value if isinstance(place, ast.Constant) else None
            return any(one.any_key or key in one.keys for one in told)
    return False


def unmade(machine: Engine, node: ast.Name) -> bool:
    """Return whether nothing binds a name because of how a condition was answered, of an `if` in the scope around it or
    in one further out.
    """
    position, asked = machine.world.position, machine.world.choices.asked
    module, notes = position.frames[-1].module, position.notes
    here = [one.statement for place, one in asked.items() if place[0] == module.path]
    making = [one for one in only(here, ast.If) if node.id in notes.of(one, makes).names]
    if not making or module.source is None:
        return False
    scopes = notes.of(module.source.tree, _scopes)
    return any(all(_within(node, scope) for scope in scopes if _within(one, scope)) for one in making)


def _scopes(tree: ast.AST) -> list[_Scope]:
    return [*of_kind(tree, ast.FunctionDef), *of_kind(tree, ast.AsyncFunctionDef), *of_kind(tree, ast.ClassDef)]


def _within(node: ast.expr | ast.stmt, scope: _Scope) -> bool:
    """Return whether a node stands in what a function or a class begins."""
    return scope.lineno < node.lineno <= (scope.end_lineno or scope.lineno)


_Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def free_names(node: ast.AST) -> frozenset[str]:
    """Return the names that a function reads and does not store itself."""
    own: set[str] = set()
    match node:
        case ast.FunctionDef(args=given) | ast.AsyncFunctionDef(args=given) | ast.Lambda(args=given):
            every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            own = {one.arg for one in every if one is not None}
    read: set[str] = set()
    shared: set[str] = set()
    for part in walk(node):
        match part:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                own.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                shared.update(names)
    return frozenset((read - own) | shared)


def ways_out(loop: ast.While | ast.For | ast.AsyncFor) -> dict[ast.AST, bool] | None:
    """Return the conditions of an endless loop that lead out of it, and with which answer.

    None where one of them does nothing on the way: it may come to an end after any iteration.
    """
    found: dict[ast.AST, bool] = {}
    stack: list[ast.stmt] = list(loop.body)
    while stack:
        part = stack.pop()
        match part:
            case ast.Break() | ast.Return():
                return None
            case ast.If(body=body, orelse=orelse):
                for block, answer in ((body, True), (orelse, False)):
                    if _only_leaves(block):
                        return None
                    if any(isinstance(child, (ast.Break, ast.Return)) for child in block):
                        found[part] = answer
                    else:
                        stack += block
            case ast.With(body=body) | ast.Try(body=body):
                stack += body
    return found


def is_path(side: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of one: it can be looked up without an effect."""
    while isinstance(side, ast.Attribute):
        side = side.value
    return bool(id_of(side))


def flag_of(test: ast.expr) -> tuple[ast.expr, bool] | None:
    """Return the name, or attribute of one, that a test asks for its truth, and the answer with which that holds."""
    match test:
        case ast.Name() | ast.Attribute() if is_path(test):
            return test, True
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            known = flag_of(inner)
            return known and (known[0], not known[1])
        case ast.Compare(left=inner, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=bool(wanted))]):
            known = flag_of(inner)
            return known and (known[0], known[1] is wanted)
    return None


def goes_on_by(loop: ast.While) -> list[tuple[ast.expr, bool]]:
    """Return the flags that a `while` asks, `while not (done or stopped)`, each with what it is while that goes on."""
    found: list[tuple[ast.expr, bool]] = []
    parts = [(loop.test, True)]
    while parts:
        part, wanted = parts.pop()
        match part:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                parts.append((inner, not wanted))
            case ast.BoolOp(op=operator, values=values):
                if (type(operator) is ast.And) is wanted:
                    parts += [(value, wanted) for value in values]
            case _ if (known := flag_of(part)) is not None:
                found.append((known[0], known[1] is wanted))
    return found


def _only_leaves(block: list[ast.stmt]) -> bool:
    """Whether a block does nothing but leave a loop, and hands nothing out."""
    match block:
        case [ast.Break() | ast.Return(value=None)]:
            return True
    return False


_HOOKING = frozenset(("register_hook", "register_post_accumulate_grad_hook", "retain_grad"))
"""What is called for the sake of a backward, and raises for a tensor that requires no grad."""


def hooks_where_recorded(tree: ast.AST) -> frozenset[int]:
    """Return, by id, where a tensor is asked whether it requires grad for nothing but to hook it then: the question and
    the calls. Without its graph such code goes on as it does with it.
    """
    found: set[int] = set()
    for guard in of_kind(tree, ast.If):
        # Of an `or` one that was asked of nothing may be hooked as well.
        tests = [guard.test, *getattr(guard.test, "values", ())] if " or " not in text_of(guard.test) else []
        asked = [part for part in tests if attr_of(part) == "requires_grad"]
        calls = [getattr(statement, "value", statement) for statement in guard.body]
        hooks = all(method_called(call) in _HOOKING for call in calls)
        if asked and hooks and not guard.orelse and {*map(_asked_of, calls)} <= {*map(_asked_of, asked)}:
            found.update(map(id, (*asked, *calls)))
    return frozenset(found)


def _asked_of(node: ast.AST) -> str:
    """Return what an attribute or a method is asked of, as it is written."""
    return text_of(getattr(getattr(node, "func", node), "value", node))
