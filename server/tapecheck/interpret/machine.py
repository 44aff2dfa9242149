"""The dry run of Python itself: statements and expressions over abstract values.

Statements are run by Python generators, so that a generator function of the program can be suspended at its
`yield` wherever it stands. What torch does is in `torchlib`, `nnlib` and `autograd`; what Python's own functions
and containers do is in `builtin`, `stdlib`, `containers` and `constants`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from collections.abc import Generator as PyGenerator
from typing import TYPE_CHECKING, Any

from tapecheck.interpret import (
    builtin,
    carry,
    constants,
    containers,
    contexts,
    equality,
    flow,
    functions,
    records,
    stdlib,
    unknowns,
)
from tapecheck.interpret.values import (
    CONSTANTS,
    OPEN,
    Args,
    Bound,
    Class,
    Context,
    Dict,
    Env,
    Function,
    Generator,
    Instance,
    Kwargs,
    Lib,
    List,
    Module,
    Native,
    Range,
    Record,
    Set,
    Signal,
    Stream,
    Super,
    Tensor,
    Unknown,
    Value,
    Wrapped,
    concrete,
    unwrapped,
)
from tapecheck.interpret.world import Exhausted, Frame, World
from tapecheck.source import expects
from tapecheck.tape import Bind, Escape, Fact, Raised, Site, Span

if TYPE_CHECKING:
    from tapecheck.interpret.project import Project

Run = PyGenerator[Value, Value, Any]

MAX_DEPTH = 48
MAX_RECURSION = 3
MAX_COUNTED_RECURSION = 12
MIN_ITERATIONS = 3
MAX_ITERATIONS = 36
ITERATION_WORK = 24_000
_MAX_ROUNDS = 64
_MAX_FED = 256
_NAMED_ELEMENTS = 4

_EXCLUSIVE = ("Eq", "Lt", "Gt")
_FUNCTION_BASES = ("torch.autograd.Function", "torch.autograd.function.Function")
_ODD_CALLS = (IndexError, ValueError, KeyError, TypeError, OverflowError, MemoryError, AttributeError)
"""What a library function's model raises when it is called in an odd way."""

BREAK = object()
CONTINUE = object()


class Returned:
    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}
_NUMBERS = (int, float, complex)
_RICH: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("__eq__", "__eq__"), ast.NotEq: ("__ne__", "__ne__"), ast.Lt: ("__lt__", "__gt__"),
    ast.LtE: ("__le__", "__ge__"), ast.Gt: ("__gt__", "__lt__"), ast.GtE: ("__ge__", "__le__"),
}  # fmt: skip
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq, ast.NotEq: ast.NotEq, ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
}  # fmt: skip
_NEGATED = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In, ast.GtE: ast.Lt, ast.LtE: ast.Gt}
_DUNDER = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip


class Machine:
    """Runs the statements of one program in one world."""

    def __init__(self, world: World, project: Project) -> None:
        from tapecheck.interpret import torchlib

        self.world = world
        self.project = project
        self.torch = torchlib.Torch(self)
        self.envs: list[Env] = []
        self.modules: dict[str, Module] = {}
        self.called: set[int] = set()
        self.called_names: set[str] = set()
        self.depth = 0
        self.entered: dict[tuple[int, tuple[Span, ...]], int] = {}
        self.running: list[int] = []
        self.handlers = 0
        self.handling: list[Signal] = []
        self.globals_done = False
        self._exec: dict[type[ast.stmt], Callable[[Any, Env], Run]] = {
            ast.If: self._if, ast.For: self._for, ast.AsyncFor: self._for, ast.While: self._while,
            ast.With: self._with, ast.AsyncWith: self._with, ast.Try: self._try,
            ast.Match: self._match, ast.Return: self._return, ast.Expr: self._expr, ast.Assign: self._assign,
        }  # fmt: skip
        if hasattr(ast, "TryStar"):
            self._exec[ast.TryStar] = self._try
        self._simple: dict[type[ast.stmt], Callable[[Any, Env], None]] = {
            ast.FunctionDef: self._function_def, ast.AsyncFunctionDef: self._function_def,
            ast.ClassDef: self._class_def, ast.Delete: self._delete, ast.AugAssign: self._aug_assign,
            ast.AnnAssign: self._ann_assign, ast.Raise: self._raise, ast.Assert: self._assert,
            ast.Import: self._import, ast.ImportFrom: self._import_from, ast.Global: self._global,
            ast.Nonlocal: self._nonlocal, ast.Pass: lambda node, env: None,
        }  # fmt: skip
        self._eval: dict[type[ast.expr], Callable[[Any, Env], Value]] = {
            ast.Constant: lambda node, env: node.value, ast.Name: self._name, ast.Attribute: self._attribute,
            ast.Call: self._call, ast.BinOp: self._bin_op, ast.UnaryOp: self._unary_op,
            ast.BoolOp: self._bool_op, ast.Compare: self._compare, ast.IfExp: self._if_exp,
            ast.Tuple: self._tuple, ast.List: self._list, ast.Set: self._set, ast.Dict: self._dict,
            ast.Subscript: self._subscript, ast.Slice: self._slice, ast.Lambda: self._lambda,
            ast.ListComp: self._list_comp, ast.SetComp: self._list_comp, ast.GeneratorExp: self._generator_exp,
            ast.DictComp: self._dict_comp, ast.JoinedStr: self._joined, ast.FormattedValue: self._formatted,
            ast.NamedExpr: self._named, ast.Starred: lambda node, env: self.eval(node.value, env),
            ast.Await: lambda node, env: self.eval(node.value, env),
            ast.Yield: self._yielded, ast.YieldFrom: self._yielded,
        }  # fmt: skip

    # -- statements -----------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt], env: Env) -> Run:
        """Run statements; answers None, BREAK, CONTINUE or a Returned."""
        world = self.world
        suspends = env.sent is not None
        for node in body:
            world.spend()
            if suspends:
                for part in functions.yields_of(node):
                    yield from self._suspend(part, env)
            simple = self._simple.get(type(node))
            if simple is not None:
                simple(node, env)
                continue
            compound = self._exec.get(type(node))
            if compound is not None:
                signal = yield from compound(node, env)
                if signal is not None:
                    return signal
            elif isinstance(node, ast.Break):
                return BREAK
            elif isinstance(node, ast.Continue):
                return CONTINUE
        return None

    def run_module(self, module: Module, tree: ast.Module, name: str) -> None:
        """Run a module's statements in its namespace."""
        env = module.env
        env.vars.update({"__name__": name, "__file__": module.path, "__doc__": None})
        self.envs.append(env)
        self.world.push(Frame("<module>", module.path, module.lines))
        try:
            for _ in self.block(tree.body, env):
                pass
        finally:
            self.world.pop()
            self.envs.pop()

    def _expr(self, node: ast.Expr, env: Env) -> Run:
        self.eval(node.value, env)
        return None
        yield

    def _suspend(self, node: ast.Yield | ast.YieldFrom, env: Env) -> Run:
        """Run a yield ahead of the statement it stands in; the statement then finds what it gave."""
        value = self.eval(node.value, env) if node.value is not None else None
        if isinstance(node, ast.Yield):
            result = yield value
        elif isinstance(value, Generator):
            result = yield from value.run
        else:
            yield from self.elements(value, node)
            result = None
        if env.sent is not None:
            env.sent[node] = result

    def _yielded(self, node: ast.AST, env: Env) -> Value:
        return Unknown("yield") if env.sent is None else env.sent.get(node)

    def _assign(self, node: ast.Assign, env: Env) -> Run:
        value = self.eval(node.value, env)
        for target in node.targets:
            self.assign(target, value, env, node)
            if isinstance(node.value, ast.BinOp):
                self._count(target, value, env)
        return None
        yield

    def _return(self, node: ast.Return, env: Env) -> Run:
        return Returned(self.eval(node.value, env) if node.value is not None else None)
        yield

    def _if(self, node: ast.If, env: Env) -> Run:
        taken = self.test(node.test, env, node)
        return (yield from self.block(node.body if taken else node.orelse, env))

    def _for(self, node: ast.For, env: Env) -> Run:
        world = self.world
        stream = self.stream(self.eval(node.iter, env), node.iter)
        outside = world.iteration
        counted = len(world.counted)
        feeding = env.sent is not None and functions.has_yield(node)
        enough = self._enough_iterations(node)
        varying = world.varying
        loop = world.enter_loop(node)
        signal: Any = None
        done = 0
        index = stream.next
        work = world.work
        while True:
            length = stream.length()
            if length is not None and index >= length:
                break
            if done >= enough and feeding and done < _MAX_FED:
                # Whoever takes what it yields says how often it goes round.
                if length is None and env.sent is not None:
                    env.sent[OPEN] = True
            elif done >= enough and (length is None or length > index):
                go_on = length is not None and (
                    world.varying > varying or (length <= 6 and work - world.work < ITERATION_WORK)
                )
                exhausted = done >= MAX_ITERATIONS or work - world.work > ITERATION_WORK
                if not go_on or (exhausted and stream.sequential):
                    break
                if exhausted:
                    if length is None or index >= length - 1:
                        break
                    index = length - 1
            varying = world.varying
            try:
                element = stream.item(index)
            except IndexError:
                break
            started = carry.begin(self, loop, done + 1)
            self.assign(node.target, element, env, node)
            signal = yield from self.block(node.body, env)
            done += 1
            index += 1
            stream.next = index
            world.spend(3)
            if signal is BREAK or isinstance(signal, Returned):
                carry.end(self, loop, done, started)
                break
            carry.end(self, loop, done, started)
            signal = None
        length = stream.length()
        more: Fact = "may" if length is None or stream.sequential else ("yes" if index < length else "no")
        if signal is None and more != "no":
            self._forget_counters(node, env, counted, done, None if length is None else length - index)
            self._end_of(node, stream, env)
        if not outside:
            del world.counted[:]
        world.leave_loop(loop, outside, done, more)
        if isinstance(signal, Returned):
            return signal
        if signal is not BREAK and node.orelse:
            return (yield from self.block(node.orelse, env))
        return None

    def _forget_counters(self, node: ast.For | ast.While, env: Env, first: int, done: int, left: int | None) -> None:
        """A loop was left before its end: what it counted up has another value in the real program.

        `first` is where in `World.counted` the loop's own entries begin, `done` how many iterations were run, `left`
        how many more the real program makes where that is known.
        """
        rows: dict[tuple[str, int, Any], list[Any]] = {}
        grown: dict[int, tuple[List, int]] = {}
        for kind, owner, key, value in self.world.counted[first:]:
            if kind == "grown":
                grown[id(owner)] = (owner, grown.get(id(owner), (owner, 0))[1] + value)
            else:
                rows.setdefault((kind, id(owner), key), [owner]).append(value)
        for owner, count in grown.values():
            if left is None or done < 2 or count % done or owner.cut is None:
                owner.cut = None
            else:
                owner.cut += left * (count // done)
        for (kind, _, key), (owner, *values) in rows.items():
            held = owner.attrs if kind == "attribute" else (owner.vars if kind == "name" else owner.items)
            if isinstance(held.get(key), (int, float)) and not isinstance(held[key], bool):
                held[key] = _extrapolated(values, done, left)
        for name in flow.counted_names(node):
            value = env.vars.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and ("name", id(env), name) not in rows:
                env.vars[name] = Unknown("number")

    def _count(self, target: ast.expr, value: Value, env: Env) -> None:
        """Note a number that a statement of a loop counts up: `self.step += 1`."""
        if not self.world.iteration or not isinstance(value, (int, float)):
            return
        counted = self.world.counted
        if isinstance(target, ast.Attribute):
            owner = self.eval(target.value, env)
            if isinstance(owner, Instance):
                counted.append(("attribute", owner, target.attr, value))
        elif isinstance(target, ast.Subscript):
            owner = self.eval(target.value, env)
            if isinstance(owner, Dict):
                counted.append(("item", owner, equality.hashable(self.eval(target.slice, env)), value))
        elif isinstance(target, ast.Name):
            home = self.home_of(target.id, env)
            counted.append(("name", home, target.id, value))

    def _end_of(self, node: ast.For, stream: Stream, env: Env) -> None:
        """A loop was cut short: its variable has the last value that the real loop gives it."""
        target = node.target
        if not isinstance(target, ast.Name) or not isinstance(env.vars.get(target.id), (int, float)):
            return
        length = stream.length()
        last: Value = Unknown("number")
        if length is not None and length > 0 and not stream.sequential:
            last = stream.item(length - 1)
        if isinstance(last, (int, float, Unknown)):
            env.vars[target.id] = last

    def _enough_iterations(self, node: ast.AST) -> int:
        """How many iterations of a loop show what it does: fewer each time it is entered from the same place."""
        key = (id(node), self.world.call_stack)
        entered = self.entered[key] = self.entered.get(key, 0) + 1
        return max(MIN_ITERATIONS + 1 - entered, 1)

    def _while(self, node: ast.While, env: Env) -> Run:
        world = self.world
        outside = world.iteration
        counted = len(world.counted)
        feeding = env.sent is not None and functions.has_yield(node)
        enough = self._enough_iterations(node)
        varying = world.varying
        loop = world.enter_loop(node)
        signal: Any = None
        done = 0
        work = world.work
        known = False
        always = isinstance(node.test, ast.Constant) and bool(node.test.value)
        while True:
            if env.sent is not None:
                for part in functions.yields_in(node.test):
                    yield from self._suspend(part, env)
            value = self.eval(node.test, env)
            answer = self.known_truth(value)
            if done >= enough and feeding and done < _MAX_FED and answer is not False:
                if env.sent is not None and (always or answer is None):
                    env.sent[OPEN] = True
            elif always:
                if done >= enough and (world.varying == varying or done >= MAX_ITERATIONS):
                    break
            elif answer is None:
                if done >= enough:
                    break
            elif not answer:
                known = True
                break
            elif done >= MAX_ITERATIONS or (done >= enough and work - world.work > ITERATION_WORK):
                break
            varying = world.varying
            started = carry.begin(self, loop, done + 1)
            signal = yield from self.block(node.body, env)
            done += 1
            world.spend(3)
            carry.end(self, loop, done, started)
            if signal is BREAK or isinstance(signal, Returned):
                break
            signal = None
        if not known and signal is None:
            self._forget_counters(node, env, counted, done, None)
        if not outside:
            del world.counted[:]
        world.leave_loop(loop, outside, done, "no" if known or signal is not None else "may")
        if isinstance(signal, Returned):
            return signal
        if signal is not BREAK and node.orelse and not always:
            return (yield from self.block(node.orelse, env))
        return None

    def _with(self, node: ast.With, env: Env) -> Run:
        entered: list[Value] = []
        raised: Signal | None = None
        signal: Any = None
        iteration = self.world.iteration
        handlers = self.handlers
        try:
            for item in node.items:
                manager = self.eval(item.context_expr, env)
                if isinstance(manager, Unknown) and expects(item.context_expr):
                    manager = contexts.expecting()
                if isinstance(manager, Context) and manager.swallows:
                    self.handlers += 1
                value = self.enter(manager, node)
                entered.append(manager)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, value, env, node)
            signal = yield from self.block(node.body, env)
        except Signal as error:
            raised = error
        self.handlers = handlers
        # Whatever else ends the block (the budget, a generator thrown away) ends the whole way through the program.
        while entered:
            try:
                if self.leave(entered.pop(), node, raised) and raised is not None:
                    self.caught(raised, iteration)
                    raised = None
            except Signal as error:
                raised = error
        if raised is not None:
            raise raised
        return signal

    def enter(self, manager: Value, node: ast.AST) -> Value:
        """Enter a context; answers what `as` binds."""
        if isinstance(manager, Context):
            return manager.enter(self)
        if isinstance(manager, Instance):
            for name in ("__enter__", "__aenter__"):
                method = self.special(manager, name)
                if method is not None:
                    return self.call(method, [], {}, node)
            return manager
        if isinstance(manager, Unknown):
            return unknowns.attribute_of_unknown(manager, "__enter__()")
        return manager

    def leave(self, manager: Value, node: ast.AST, raised: Signal | None = None) -> bool:
        """Leave a context that was entered; answers whether it swallows the exception its block ended in."""
        if isinstance(manager, Context):
            return manager.leave(self, raised) is True
        if isinstance(manager, Instance):
            for name in ("__exit__", "__aexit__"):
                method = self.special(manager, name)
                if method is not None:
                    args: Args = [None, None, None]
                    if raised is not None:
                        if manager.cls is None:
                            manager.facts["raised"] = raised
                        value = flow.exception_object(raised)
                        args = [flow.exception_class(raised), value, Unknown("traceback")]
                    return self.known_truth(self.call(method, args, {}, node)) is True
        return False

    def caught(self, raised: Signal, iteration: tuple[tuple[int, int], ...]) -> None:
        """An exception goes no further: the program is back where the statement that caught it stands."""
        self.world.iteration = iteration
        self.world.stamp += 1
        self._mark_caught(raised)

    def _try(self, node: ast.Try, env: Env) -> Run:
        if not node.finalbody:
            return (yield from self._handled(node, env))
        iteration = self.world.iteration
        try:
            signal = yield from self._handled(node, env)
        except Signal as raised:
            instead = yield from self.block(node.finalbody, env)
            if instead is None:
                raise
            self.caught(raised, iteration)
            return instead
        instead = yield from self.block(node.finalbody, env)
        return signal if instead is None else instead

    def _handled(self, node: ast.Try, env: Env) -> Run:
        """The body of a `try` with its handlers and its `else`."""
        iteration = self.world.iteration
        try:
            self.handlers += 1
            try:
                signal = yield from self.block(node.body, env)
            finally:
                self.handlers -= 1
        except Signal as raised:
            handler = self._handler(node, raised, env)
            if handler is None:
                raise
            self.caught(raised, iteration)
            if handler.name:
                env.vars[handler.name] = flow.exception_object(raised)
            self.handling.append(raised)
            try:
                return (yield from self.block(handler.body, env))
            finally:
                self.handling.pop()
        if signal is None and node.orelse:
            signal = yield from self.block(node.orelse, env)
        return signal

    def _handler(self, node: ast.Try, raised: Signal, env: Env) -> ast.ExceptHandler | None:
        for handler in node.handlers:
            if handler.type is None:
                return handler
            wanted = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            for expression in wanted:
                if flow.exception_matches(raised, self.eval(expression, env), expression):
                    return handler
        return None

    def _mark_caught(self, signal: Signal, caught: bool = True) -> None:
        """Note on the tape whether an exception of torch's was caught (or raised again)."""
        if signal.node is not None and self.world.frames:
            events = self.world.tape.events
            for index in range(len(events) - 1, -1, -1):
                event = events[index]
                if isinstance(event, Raised):
                    events[index] = Raised(event.at, event.exception, event.message, event.backward, caught)
                    return

    def _match(self, node: ast.Match, env: Env) -> Run:
        subject = self.eval(node.subject, env)
        for case in node.cases:
            matched = flow.match_pattern(self, case.pattern, subject, env)
            if matched is None:
                matched = self.world.choose(case.pattern, True, "case " + ast.unparse(case.pattern))
            if matched and case.guard is not None:
                matched = self.test(case.guard, env, case.guard)
            if matched:
                return (yield from self.block(case.body, env))
        return None

    def _function_def(self, node: ast.FunctionDef, env: Env) -> None:
        value: Value = self.make_function(node, env, node.name)
        for decorator in reversed(node.decorator_list):
            value = self.decorate(self.eval(decorator, env), value, decorator)
        self.store_name(node.name, value, env, node)

    def make_function(self, node: Any, env: Env, name: str) -> Function:
        arguments: ast.arguments = node.args
        defaults = [self.eval(default, env) for default in arguments.defaults]
        kw_defaults = [self.eval(default, env) if default is not None else None for default in arguments.kw_defaults]
        return Function(node, env, self.module_of(env), name, defaults, kw_defaults)

    def module_of(self, env: Env) -> Module:
        module: Module = env.globals.vars["__module__object"]
        return module

    def decorate(self, decorator: Value, function: Value, node: ast.AST) -> Value:
        if isinstance(decorator, Lib):
            if decorator.path in stdlib.DECORATORS:
                return self.call(decorator, [function], {}, node)
            known = self.torch.decorator(decorator.path, function)
            if known is not None:
                return known
        if isinstance(decorator, Context) and decorator.decorate is not None:
            return Wrapped(decorator.decorate, function)
        if isinstance(decorator, (Function, Bound, Wrapped, Class)):
            return self.call(decorator, [function], {}, node)
        if isinstance(decorator, Native):
            return decorator.call(self, [function], {}, node)
        if isinstance(decorator, Instance):
            if decorator.cls is not None and self.find_method(decorator, "__call__") is None:
                return contexts.decorated(decorator, function)
            return self.call(decorator, [function], {}, node)
        # An unknown decorator is trusted to call what it decorates (click, hydra, functools.wraps ...).
        return function

    def _class_def(self, node: ast.ClassDef, env: Env) -> None:
        bases = [self.eval(base, env) for base in node.bases if not isinstance(base, ast.Starred)]
        # `class Config(dict)`: a built-in type is a base like one out of a library.
        bases = [Lib(f"builtins.{base.name}") if base in _CONTAINER_TYPES else base for base in bases]
        namespace = Env(env, env.globals)
        cls = Class(node.name, bases, namespace.vars, self.module_of(env), node)
        for _ in self.block(node.body, namespace):
            pass
        for value in namespace.vars.values():
            inner = value
            while isinstance(inner, Wrapped):
                inner = inner.function
            if isinstance(inner, Function):
                inner.owner = cls
                if inner.env is namespace:
                    inner.env = env
                inner.name = f"{node.name}.{inner.name}" if "." not in inner.name else inner.name
        records.finish(self, cls, node, namespace)
        for name, value in list(namespace.vars.items()):
            if isinstance(value, Instance) and value.cls is not None:
                method = self.find_method(value, "__set_name__")
                if method is not None:
                    self.call(method, [cls, name], {}, node)
        for base in cls.mro()[1:]:
            if "__init_subclass__" in base.namespace:
                function = base.namespace["__init_subclass__"]
                function = function.function if isinstance(function, Wrapped) else function
                named = {word.arg: self.eval(word.value, env) for word in node.keywords if word.arg}
                self.call(function, [cls], named, node)
                break
        result: Value = cls
        for decorator in reversed(node.decorator_list):
            result = self.decorate_class(self.eval(decorator, env), result, decorator)
        self.store_name(node.name, result, env, node)

    def decorate_class(self, decorator: Value, cls: Value, node: ast.AST) -> Value:
        """What a decorator makes of a class; one that nobody can look into is trusted to give the class back."""
        if isinstance(decorator, (Function, Bound, Wrapped, Class, Native, Instance)):
            result = self.call(decorator, [cls], {}, node)
            return cls if result is None or isinstance(result, Unknown) else result
        return cls

    def _delete(self, node: ast.Delete, env: Env) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                (env.globals if target.id in env.names_global else env).vars.pop(target.id, None)
            elif isinstance(target, (ast.Tuple, ast.List)):
                self._delete(ast.Delete(target.elts), env)
            elif isinstance(target, ast.Attribute):
                owner = self.eval(target.value, env)
                if isinstance(owner, Instance):
                    self.delete_attribute(owner, target.attr, node)
            elif isinstance(target, ast.Subscript):
                owner = self.eval(target.value, env)
                index = self.eval(target.slice, env)
                method = self.find_method(owner, "__delitem__") if isinstance(owner, Instance) else None
                if method is not None:
                    self.call(method, [index], {}, node)
                else:
                    containers.delete_item(owner, index)

    def delete_attribute(self, owner: Instance, name: str, node: ast.AST) -> None:
        if owner.cls is not None:
            descriptor = functions.data_descriptor(owner.cls, name)
            if isinstance(descriptor, Wrapped) and descriptor.deleter is not None:
                self.call(descriptor.deleter, [owner], {}, node)
                return
            method = self.find_method(owner, "__delattr__")
            if method is not None:
                self.call(method, [name], {}, node)
                return
        owner.attrs.pop(name, None)

    def _aug_assign(self, node: ast.AugAssign, env: Env) -> None:
        target = node.target
        value = self.eval(node.value, env)
        if isinstance(target, ast.Name):
            current = self._name(target, env)
            result = self.augment(node, current, value)
            self.store_name(target.id, result, env, node)
            self._count(target, result, env)
        elif isinstance(target, ast.Attribute):
            owner = self.eval(target.value, env)
            current = self.get_attribute(owner, target.attr, target)
            result = self.augment(node, current, value)
            self.set_attribute(owner, target.attr, result, node)
            self._name_tensor(target, result)
            self._count(target, result, env)
        elif isinstance(target, ast.Subscript):
            owner = self.eval(target.value, env)
            index = self.eval(target.slice, env)
            current = self.get_item(owner, index, target)
            result = self.augment(node, current, value)
            self._name_tensor(target, result)
            self.set_item(owner, index, result, node)
            self._count(target, result, env)

    def augment(self, node: ast.AugAssign, current: Value, value: Value) -> Value:
        if isinstance(current, Tensor):
            return self.torch.augmented(type(node.op).__name__, current, value, node)
        if isinstance(current, (List, Dict, Set)) and containers.augment(self, node.op, current, value, node):
            return current
        if isinstance(current, Instance):
            method = self.find_method(current, f"__i{_DUNDER.get(type(node.op), '')}__")
            if method is not None:
                return self.call(method, [value], {}, node)
        return self.binary(node.op, current, value, node)

    def _ann_assign(self, node: ast.AnnAssign, env: Env) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value, env), env, node)

    def _raise(self, node: ast.Raise, env: Env) -> None:
        if node.exc is None:
            if not self.handling:
                raise Signal("RuntimeError")
            self._mark_caught(self.handling[-1], False)
            raise self.handling[-1]
        value = self.eval(node.exc, env)
        raise Signal(flow.exception_name(value, node.exc), value)

    def _assert(self, node: ast.Assert, env: Env) -> None:
        value = self.eval(node.test, env)
        if self.known_truth(value) is False and not isinstance(value, Unknown):
            raise Signal("AssertionError")
        if isinstance(value, Unknown):
            self.settle(value, True)

    def _import(self, node: ast.Import, env: Env) -> None:
        for alias in node.names:
            if alias.asname:
                self.store_name(alias.asname, self.import_module(alias.name, node, 0), env, node)
            else:
                top = alias.name.split(".")[0]
                whole = self.import_module(alias.name, node, 0)
                value = whole if top == alias.name else self.import_module(top, node, 0)
                self.store_name(top, value, env, node)

    def _import_from(self, node: ast.ImportFrom, env: Env) -> None:
        base = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                owner = self.import_module(base, node, node.level)
                if isinstance(owner, Module):
                    for key, value in owner.env.vars.items():
                        if not key.startswith("_"):
                            env.vars[key] = value
                else:
                    env.vars.setdefault("__star__", []).append(owner)
                continue
            owner = self.import_module(base, node, node.level)
            if isinstance(owner, Module):
                if alias.name in owner.env.vars:
                    value = owner.env.vars[alias.name]
                else:
                    value = self.import_module(f"{base}.{alias.name}".lstrip("."), node, node.level)
            else:
                value = Lib(f"{owner.path}.{alias.name}") if isinstance(owner, Lib) else Unknown(alias.name)
                value = self.torch.constant(value)
            self.store_name(alias.asname or alias.name, value, env, node)

    def import_module(self, name: str, node: ast.AST, level: int) -> Value:
        """A user's module run from its source, or the library name."""
        return self.project.import_module(self, name, level, self.world.frames[-1].file)

    def _global(self, node: ast.Global, env: Env) -> None:
        env.names_global.update(node.names)

    def _nonlocal(self, node: ast.Nonlocal, env: Env) -> None:
        env.names_outer.update(node.names)

    # -- storing --------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, value: Value, env: Env, statement: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self.store_name(target.id, value, env, statement, target)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.eval(target.value, env), target.attr, value, statement)
            self._name_tensor(target, value)
        elif isinstance(target, ast.Subscript):
            self._name_tensor(target, value)
            self.set_item(self.eval(target.value, env), self.eval(target.slice, env), value, statement)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, env, statement)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value, env, statement)

    def _name_tensor(self, target: ast.expr, value: Value) -> None:
        """Note what the user calls a tensor that an attribute or item was set to."""
        if isinstance(value, (Tensor, Unknown)) and value.node is not None:
            self.world.emit(Bind(self.world.site(target), _text(target), value.node, value.cuts))
        elif isinstance(value, tuple):
            self._name_elements(self.world.site(target), _text(target), value)

    def _name_elements(self, at: Site, name: str, value: tuple[Any, ...]) -> None:
        """Note the tensors of a small tuple under the tuple's name, as for the state of an LSTM."""
        for index, item in enumerate(value[:_NAMED_ELEMENTS]):
            if isinstance(item, (Tensor, Unknown)) and item.node is not None:
                self.world.emit(Bind(at, name, item.node, item.cuts, index))

    def _unpack(self, targets: list[ast.expr], value: Value, env: Env, statement: ast.AST) -> None:
        star = next((i for i, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
        values = containers.known_items(self, value, statement)
        if values is None:
            values = containers.guessed_items(self, value, len(targets), statement)
            if star is not None:
                values[star] = List([values[star]], more=True)
        elif star is not None:
            after = len(targets) - star - 1
            middle = values[star : len(values) - after]
            values = [*values[:star], List(middle), *values[len(values) - after :]]
        if len(values) < len(targets):
            raise Signal("ValueError")
        for target, item in zip(targets, values):
            self.assign(target, item, env, statement)

    def store_name(self, name: str, value: Value, env: Env, statement: ast.AST, target: ast.AST | None = None) -> None:
        home = env
        if env.names_global or env.names_outer:
            home = self.home_of(name, env)
            if home is not env:
                self.touched(home)
        before = home.vars.get(name)
        home.vars[name] = value
        if isinstance(value, _HOLDERS):
            if not carry.restored(self, home, name, before, value):
                home.stores[name] = self.world.site(statement)
            home.stamps[name] = self.world.clock
            if isinstance(value, Tensor):
                if not value.name or value.node is None or not value.is_leaf:
                    value.name = name
                if value.node is not None or value.cuts:
                    at = self.world.site(target if target is not None else statement)
                    self.world.emit(Bind(at, name, value.node, value.cuts))
            elif isinstance(value, tuple):
                self._name_elements(self.world.site(target if target is not None else statement), name, value)
            elif isinstance(value, Unknown) and value.node is not None and value.name[-1:] in (")", "]"):
                # A result without a name gets the one that the program gives it.
                value.name = name

    def home_of(self, name: str, env: Env) -> Env:
        """The namespace that a store to a name goes to."""
        if name in env.names_global:
            return env.globals
        if name in env.names_outer:
            outer = env.parent
            while outer is not None and name not in outer.vars:
                outer = outer.parent
            return outer or env
        return env

    def set_attribute(self, owner: Value, name: str, value: Value, node: ast.AST) -> None:
        if isinstance(owner, Instance):
            if owner.cls is not None and self._set_by_class(owner, owner.cls, name, value, node):
                return
            self.store_attribute(owner, name, value, node)
        elif isinstance(owner, Class):
            self.touched(owner.module.env)
            owner.namespace[name] = value
            self.world.kept += 1
            if isinstance(value, _HOLDERS):
                carry.stored(self, owner, name, node)
        elif isinstance(owner, Tensor):
            self.torch.set_tensor_attribute(owner, name, value, node)
        elif isinstance(owner, Module):
            self.touched(owner.env)
            owner.env.vars[name] = value
        elif isinstance(owner, Function):
            self.touched(owner.env.globals)
            owner.attrs[name] = value
        elif isinstance(owner, Unknown):
            if owner.attrs is None:
                owner.attrs = {}
            owner.attrs[name] = value
            self.escape(value, node, owner.name)

    def store_attribute(self, owner: Instance, name: str, value: Value, node: ast.AST) -> None:
        """Set an attribute as `object.__setattr__` does."""
        self.world.kept += 1
        if name == "__dict__" and isinstance(value, Dict):
            owner.attrs = value.items
            return
        owner.attrs[name] = value
        if isinstance(value, _HOLDERS):
            carry.stored(self, owner, name, node)
            self.name_parameter(owner, name, value)

    def _set_by_class(self, owner: Instance, cls: Class, name: str, value: Value, node: ast.AST) -> bool:
        """Whether the class itself sees to the setting of an attribute: a property, a descriptor, `__setattr__`."""
        descriptor = functions.data_descriptor(cls, name)
        if isinstance(descriptor, Wrapped):
            if descriptor.extra is not None:
                self.call(descriptor.extra, [owner, value], {}, node)
            elif self.handlers:
                raise Signal("AttributeError")
            return True
        if descriptor is not None:
            method = self.find_method(descriptor, "__set__")
            if method is not None:
                self.call(method, [owner, value], {}, node)
                return True
        if cls.defines("__setattr__"):
            self.call(self.find_method(owner, "__setattr__"), [name, value], {}, node)
            return True
        if cls.kind == "dataclass" and records.frozen(cls):
            raise Signal("FrozenInstanceError")
        return False

    def touched(self, env: Env) -> None:
        """A module's own state was changed: it can't serve the next run as it is."""
        module = env.globals.vars.get("__module__object")
        if isinstance(module, Module):
            self.project.forget(module.path)

    def name_parameter(self, owner: Instance, name: str, value: Value) -> None:
        if isinstance(value, Tensor) and owner.module and not value.name:
            value.name = name

    def set_item(self, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
        if isinstance(owner, Tensor):
            self.torch.set_item(owner, index, value, node)
        elif isinstance(owner, Instance):
            method = self.find_method(owner, "__setitem__")
            if method is not None:
                self.call(method, [index, value], {}, node)
            elif "inner" in owner.facts:
                containers.set_item(self, owner.facts["inner"], index, value, node)
            elif owner.module:
                owner.attrs[str(index)] = value
                self.world.kept += 1
        else:
            containers.set_item(self, owner, index, value, node)

    def escape(self, value: Value, node: ast.AST, to: str) -> None:
        """Note that graph nodes leave what the dry run sees."""
        nodes = tuple(dict.fromkeys(tensor.node for tensor in carry.tensors_in(value) if not carry.is_leaf(tensor)))
        if nodes:
            self.world.emit(Escape(self.world.site(node), tuple(n for n in nodes if n is not None), to))

    # -- conditions -----------------------------------------------------------------------------------------

    def known_truth(self, value: Value) -> bool | None:
        """Whether a value is true; None where nobody knows."""
        if isinstance(value, Unknown):
            if value.negated is not None:
                inner = self.known_truth(value.negated)
                return None if inner is None else not inner
            if value.concrete is not None:
                return bool(value.concrete)
            if value.truth is None and value.parts is not None:
                return self.world.truths.get(unknowns.expression(value))
            return value.truth
        if isinstance(value, (List, Set)):
            return True if value.items else (None if value.more else False)
        if isinstance(value, Dict):
            return True if value.items else (None if value.more else False)
        if isinstance(value, Range):
            return len(value) > 0
        if isinstance(value, Tensor):
            return None
        if isinstance(value, Instance):
            if value.cls is not None:
                for name in ("__bool__", "__len__"):
                    method = self.find_method(value, name)
                    if method is not None:
                        return self.known_truth(self.call(method, [], {}, value.cls.node))
                if "inner" in value.facts:
                    return self.known_truth(value.facts["inner"])
            return True
        if isinstance(value, (*CONSTANTS, tuple, slice)):
            return bool(value)
        return True

    def settle(self, value: Value, answer: bool) -> None:
        """Remember the answer given for an unknown condition, so that it is given again."""
        if isinstance(value, Unknown):
            if value.negated is not None:
                self.settle(value.negated, not answer)
            else:
                value.truth = answer
                if value.parts is not None:
                    self.world.truths[unknowns.expression(value)] = answer
                unknowns.settled(value, answer)

    def test(self, expression: ast.expr, env: Env, node: ast.AST, default: bool | None = None) -> bool:
        """Decide a condition: by its value where known, else by the policy of this way through the program.

        `node` is the statement that the condition belongs to, `default` the likelier answer.
        """
        if default is None:
            default = flow.default_branch(node)
        if isinstance(expression, ast.BoolOp):
            wanted = isinstance(expression.op, ast.Or)
            for part in expression.values:
                if self.test(part, env, node, default) == wanted:
                    return wanted
            return not wanted
        if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
            return not self.test(expression.operand, env, node, not default)
        if isinstance(expression, ast.Compare) and len(expression.ops) > 1:
            return self._test_chain(expression, env, node, default)
        value = self.eval(expression, env)
        answer = self.known_truth(value)
        if answer is None:
            answer = self.world.choose(expression, default, _text(expression), node)
            self.settle(value, answer)
        return answer

    def _test_chain(self, expression: ast.Compare, env: Env, node: ast.AST, default: bool) -> bool:
        """`a <= b < c`: one test after the other, each operand evaluated once."""
        for comparator, value in self._pairs(expression, env):
            answer = self.known_truth(value)
            if answer is None:
                # The place of a pair is that of its right side: each pair is a condition of its own.
                answer = self.world.choose(comparator, default, _text(expression), node)
                self.settle(value, answer)
            if not answer:
                return False
        return True

    # -- expressions ----------------------------------------------------------------------------------------

    def eval(self, node: ast.expr, env: Env) -> Value:
        handler = self._eval.get(type(node))
        if handler is None:
            return Unknown(type(node).__name__)
        return handler(node, env)

    def _name(self, node: ast.Name, env: Env) -> Value:
        name = node.id
        scope: Env | None = env if name not in env.names_global else env.globals
        while scope is not None:
            if name in scope.vars:
                value = scope.vars[name]
                if name in scope.stamps and scope.stamps[name] < self.world.clock:
                    carry.loaded(self, scope, name)
                return value
            scope = scope.parent
        if name in builtin.NAMES:
            return builtin.NAMES[name]
        if name in flow.EXCEPTIONS:
            return Lib(f"builtins.{name}")
        for library in env.globals.vars.get("__star__", ()):
            if isinstance(library, Lib):
                found = self.torch.star_import(library.path, name)
                if found is not None:
                    return found
        if self.handlers and "__star__" not in env.globals.vars:
            raise Signal("NameError" if env is env.globals else "UnboundLocalError")
        value = Unknown(name)
        env.globals.vars[name] = value
        return value

    def _attribute(self, node: ast.Attribute, env: Env) -> Value:
        return self.get_attribute(self.eval(node.value, env), node.attr, node)

    def get_attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        if isinstance(owner, Tensor):
            return self.torch.tensor_attribute(owner, name, node)
        if isinstance(owner, Instance):
            return self.instance_attribute(owner, name, node)
        if isinstance(owner, Lib):
            if name in ("__name__", "__qualname__"):
                return owner.path.rsplit(".", 1)[-1]
            return self.torch.constant(Lib(f"{owner.path}.{name}"))
        if isinstance(owner, Module):
            if name in owner.env.vars:
                return owner.env.vars[name]
            return (
                self.import_module(f"{owner.name}.{name}", node, 0)
                if owner.path.endswith("__init__.py")
                else Unknown(name)
            )
        if isinstance(owner, Class):
            return self.class_attribute(owner, name, owner, node)
        if isinstance(owner, Super):
            return self.super_attribute(owner, name, node)
        if isinstance(owner, Unknown):
            return self.torch.unknown_attribute(owner, name, node)
        if isinstance(owner, Wrapped) and owner.kind == "property" and name in ("setter", "getter", "deleter"):
            return functions.property_part(owner, name)
        if isinstance(owner, (Function, Wrapped)):
            function = owner.function if isinstance(owner, Wrapped) else owner
            if isinstance(function, Function):
                if name in function.attrs:
                    return function.attrs[name]
                if name == "__name__":
                    return function.name
            return Unknown(name)
        return containers.attribute(self, owner, name, node)

    def instance_attribute(self, owner: Instance, name: str, node: ast.AST) -> Value:
        attrs = owner.attrs
        if name in attrs:
            if name in owner.stamps and owner.stamps[name] < self.world.clock:
                carry.loaded(self, owner, name)
            return attrs[name]
        if name == "__dict__":
            return Dict(attrs)
        if name == "__class__":
            return owner.cls if owner.cls is not None else Lib(owner.lib)
        if owner.cls is not None:
            value = self.class_attribute(owner.cls, name, owner, node)
            if not isinstance(value, Unknown) or value.name != "missing":
                return value
        inner = owner.facts.get("inner")
        if inner is not None:
            known = containers.attribute(self, inner, name, node)
            if not isinstance(known, Native) or containers.has_method(inner, name):
                return known
        if name == "args" and "args" in owner.facts:
            return tuple(owner.facts["args"])
        known = self.torch.object_attribute(owner, name, node)
        if known is not None:
            return known
        if owner.cls is not None and name != "__getattr__":
            fallback = self.find_method(owner, "__getattr__")
            if fallback is not None:
                return self.call(fallback, [name], {}, node)
        if self.handlers and self.complete(owner):
            raise Signal("AttributeError")
        value = Unknown(name)
        attrs[name] = value
        return value

    def complete(self, owner: Instance) -> bool:
        """Whether an object surely has no other attributes than those the dry run knows."""
        cls = owner.cls
        return (
            cls is not None
            and "open" not in owner.facts
            and not cls.opaque
            and all(base in _EMPTY_BASES for base in cls.library_bases())
        )

    def class_attribute(self, cls: Class, name: str, receiver: Value, node: ast.AST) -> Value:
        """Look a name up in a class for an instance or for the class itself; `missing` where it has none."""
        for candidate in cls.mro():
            if name in candidate.namespace:
                value = candidate.namespace[name]
                if name in candidate.stamps and candidate.stamps[name] < self.world.clock:
                    carry.loaded(self, candidate, name)
                return self.bind(value, receiver, node)
        if name in ("__name__", "__qualname__"):
            return cls.name
        if name in ("__mro__", "__bases__"):
            listed = cls.mro() if name == "__mro__" else tuple(cls.bases)
            return (*listed, Lib("builtins.object")) if name == "__mro__" and not cls.library_bases() else listed
        if name == "apply" and any(base in _FUNCTION_BASES for base in cls.library_bases()):
            return Native(name, lambda m, args, kwargs, at: m.torch.autograd.apply_function(cls, args, kwargs, at))
        known = records.class_attribute(self, cls, name)
        if known is not None:
            return known
        if isinstance(receiver, Class):
            return Unknown(name)
        return Unknown("missing")

    def bind(self, value: Value, receiver: Value, node: ast.AST) -> Value:
        instance = isinstance(receiver, (Instance, Record))
        if isinstance(value, Function):
            return Bound(value, receiver) if instance else value
        if isinstance(value, Wrapped):
            if value.kind == "staticmethod":
                return value.function
            if value.kind == "classmethod":
                owner = receiver.cls if isinstance(receiver, (Instance, Record)) else receiver
                return Bound(value.function, owner)
            if value.kind == "property":
                return self.call(value.function, [receiver], {}, node) if instance else value
            if value.kind == "cached_property":
                if not isinstance(receiver, Instance):
                    return value
                made = self.call(value.function, [receiver], {}, node)
                self.store_attribute(receiver, value.extra, made, node)
                return made
            return Bound(value, receiver) if instance else value
        if isinstance(value, Instance) and value.cls is not None and value.cls.defines("__get__"):
            owner = receiver.cls if isinstance(receiver, Instance) else receiver
            return self.call(self.find_method(value, "__get__"), [receiver if instance else None, owner], {}, node)
        return value

    def super_attribute(self, owner: Super, name: str, node: ast.AST) -> Value:
        receiver = owner.receiver
        cls = receiver.cls if isinstance(receiver, Instance) else receiver
        if isinstance(cls, Class):
            order = cls.mro()
            if owner.after in order:
                for candidate in order[order.index(owner.after) + 1 :]:
                    if name in candidate.namespace:
                        return self.bind(candidate.namespace[name], receiver, node)
        if name == "__new__":
            return Native(name, lambda m, args, kwargs, at: m.new_object(args[0]))
        if isinstance(receiver, Instance):
            inner = receiver.facts.get("inner")
            if inner is not None:
                return containers.attribute(self, inner, name, node)
            if name == "__setattr__":
                return Native(name, lambda m, args, kwargs, at: m.store_attribute(receiver, args[0], args[1], at))
            if name == "__init__" and "args" in receiver.facts:
                return Native(name, lambda m, args, kwargs, at: receiver.facts.update({"args": args}))
            known = self.torch.object_attribute(receiver, name, node)
            if known is not None:
                return known
        return Native(f"super().{name}", lambda machine, args, kwargs, at: None)

    def find_method(self, owner: Instance, name: str) -> Value:
        """A method that the user's classes define, bound; None where they do not."""
        if owner.cls is None:
            return None
        for candidate in owner.cls.mro():
            if name in candidate.namespace:
                return self.bind(candidate.namespace[name], owner, candidate.node)
        return None

    def special(self, owner: Instance, name: str) -> Value:
        """A special method: of the user's class, or one that the dry run gave a library's object."""
        return owner.attrs.get(name) if owner.cls is None else self.find_method(owner, name)

    def _subscript(self, node: ast.Subscript, env: Env) -> Value:
        return self.get_item(self.eval(node.value, env), self.eval(node.slice, env), node)

    def get_item(self, owner: Value, index: Value, node: ast.AST) -> Value:
        if isinstance(owner, Tensor):
            return self.torch.get_item(owner, index, node)
        if isinstance(owner, Instance):
            method = self.find_method(owner, "__getitem__")
            if method is not None:
                return self.call(method, [index], {}, node)
            inner = owner.facts.get("inner")
            if inner is not None:
                missing = self.find_method(owner, "__missing__") if isinstance(inner, Dict) else None
                if missing is not None and equality.contains(self, inner, index) is False:
                    return self.call(missing, [index], {}, node)
                return containers.get_item(self, inner, index, node)
            known = self.torch.object_item(owner, index, node)
            return Unknown("item") if known is None else known
        return containers.get_item(self, owner, index, node)

    def _slice(self, node: ast.Slice, env: Env) -> Value:
        parts = [self.eval(part, env) if part is not None else None for part in (node.lower, node.upper, node.step)]
        return slice(*parts)

    def _call(self, node: ast.Call, env: Env) -> Value:
        world = self.world
        world.spend(2)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and "super" not in env.vars:
            return self._super(node, env)
        function = self.eval(node.func, env)
        args: Args = []
        open_ended = False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                value = self.eval(argument.value, env)
                items = containers.known_items(self, value, argument)
                if items is None:
                    open_ended = True
                    args.append(value)
                else:
                    args.extend(items)
            else:
                args.append(self.eval(argument, env))
        kwargs: Kwargs = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value, env)
            if keyword.arg is not None:
                kwargs[keyword.arg] = value
            elif isinstance(unwrapped(value), Dict):
                value = unwrapped(value)
                kwargs.update({key: item for key, item in value.items.items() if isinstance(key, str)})
                open_ended = open_ended or value.more
            else:
                open_ended = True
        if open_ended:
            kwargs["**"] = Unknown("**")
        if isinstance(node.func, ast.Name) and function is builtin.NAMES.get("locals"):
            return Dict(dict(env.vars), more=True)
        return self.call(function, args, kwargs, node)

    def _super(self, node: ast.Call, env: Env) -> Value:
        scope: Env | None = env
        while scope is not None:
            if "__class__cell" in scope.vars:
                return Super(scope.vars["__self__cell"], scope.vars["__class__cell"])
            scope = scope.parent
        return Unknown("super")

    def call(self, function: Value, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """Call anything; answers the result."""
        if isinstance(function, Function):
            return self.call_function(function, args, kwargs, node)
        if isinstance(function, Bound):
            return self.call(function.function, [function.receiver, *args], kwargs, node)
        if isinstance(function, (Native, Lib)):
            try:
                if isinstance(function, Native):
                    return function.call(self, args, kwargs, node)
                kwargs.pop("**", None)
                return self.torch.call(function.path, args, kwargs, node)
            except _ODD_CALLS:
                # A call in a form the library function is not known in: what it gives is unknown.
                return self.torch.opaque_result("call", args, kwargs, node)
        if isinstance(function, Class):
            return self.instantiate(function, args, kwargs, node)
        if isinstance(function, Wrapped):
            if function.kind == "cache":
                return self.call_cached(function, args, kwargs, node)
            return self.torch.call_wrapped(function, args, kwargs, node)
        if isinstance(function, Instance):
            return self.call_instance(function, args, kwargs, node)
        kwargs.pop("**", None)
        if isinstance(function, Unknown):
            return self.torch.call_unknown(function, args, kwargs, node)
        # None, most often: something else will stand there when the real program gets so far.
        return self.torch.call_unknown(Unknown("call"), args, kwargs, node)

    def call_cached(self, function: Wrapped, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        """A function under `lru_cache`: what it gave for the same arguments."""
        key = (tuple(equality.hashable(arg) for arg in args), *((k, equality.hashable(v)) for k, v in kwargs.items()))
        memory: Dict = function.extra
        if key not in memory.items:
            memory.items[key] = self.call(function.function, args, kwargs, node)
            memory.stores[key] = self.world.site(node)
            memory.stamps[key] = self.world.clock
        return memory.items[key]

    def call_instance(self, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        method = self.special(owner, "__call__")
        if method is not None:
            return self.call(method, args, kwargs, node)
        return self.torch.call_object(owner, args, kwargs, node)

    def call_function(
        self, function: Function, args: Args, kwargs: Kwargs, node: ast.AST, *, forward: bool = False
    ) -> Value:
        world = self.world
        body = function.node
        if self.depth >= MAX_DEPTH or self._too_deep(body, args):
            return self.torch.opaque_result(function.name, args, kwargs, node)
        self.called.add(id(body))
        self.called_names.add(function.name.rsplit(".", 1)[-1])
        env = Env(function.env, function.env.globals)
        functions.bind_arguments(self, function, args, kwargs, env, node)
        if function.owner is not None:
            env.vars["__class__cell"] = function.owner
            env.vars["__self__cell"] = args[0] if args else None
        frame = Frame(
            function.name,
            function.module.path,
            function.module.lines,
            world.span(node) if world.frames else None,
            forward,
        )
        if functions.has_yield(body):
            env.sent = {}
            return Generator(self._run_generator(function, env, frame), env)
        self.depth += 1
        self.running.append(id(body))
        self.envs.append(env)
        world.push(frame)
        try:
            if isinstance(body, ast.Lambda):
                return self.eval(body.body, env)
            run = self.block(body.body, env)
            try:
                while True:
                    next(run)
            except StopIteration as stop:
                signal = stop.value
            return signal.value if isinstance(signal, Returned) else None
        finally:
            world.pop()
            self.envs.pop()
            self.running.pop()
            self.depth -= 1

    def _too_deep(self, body: ast.AST, args: Args) -> bool:
        """Whether a function calls itself too often to go on: further where a known number may count down
        or a known container be gone through."""
        running = self.running.count(id(body))
        if running < MAX_RECURSION:
            return False
        return running >= MAX_COUNTED_RECURSION or not any(
            type(arg) is int or (isinstance(arg, (List, tuple, Dict)) and not getattr(arg, "more", False))
            for arg in args
        )

    def _run_generator(self, function: Function, env: Env, frame: Frame) -> Run:
        """Run a generator function; its loops and frames are put in place whenever it is resumed."""
        assert not isinstance(function.node, ast.Lambda)
        run = self.block(function.node.body, env)
        inner: tuple[tuple[int, int], ...] = ()
        sent: Value = None
        thrown: Signal | None = None
        while True:
            outside = self.world.iteration
            self.world.iteration = (*outside, *inner)
            self.world.push(frame)
            self.envs.append(env)
            self.running.append(id(function.node))
            self.depth += 1
            try:
                value = run.send(sent) if thrown is None else run.throw(thrown)
            except StopIteration as stop:
                return stop.value.value if isinstance(stop.value, Returned) else None
            finally:
                here = self.world.iteration
                inner = here[len(outside) :] if here[: len(outside)] == outside else ()
                self.world.iteration = outside
                self.world.pop()
                self.envs.pop()
                self.running.pop()
                self.depth -= 1
            thrown = None
            try:
                sent = yield value
            except Signal as signal:
                thrown = signal

    def resume(self, generator: Generator, sent: Value = None, thrown: Signal | None = None) -> Value:
        """The next value of a generator; raises the program's StopIteration at its end."""
        if generator.pending and sent is None and thrown is None:
            return generator.pending.pop(0)
        if generator.done:
            if thrown is not None:
                raise thrown
            raise Signal("StopIteration")
        try:
            return generator.run.send(sent) if thrown is None else generator.run.throw(thrown)
        except StopIteration as stop:
            generator.done = True
            raise Signal("StopIteration", flow.stop_iteration(stop.value)) from None
        except Signal:
            generator.done = True
            raise

    def close(self, generator: Generator) -> None:
        """Close a generator that is left before its end: its `finally` and `with` blocks are run."""
        if not generator.done:
            try:
                self.resume(generator, None, Signal("GeneratorExit"))
            except Signal as signal:
                if signal.kind not in ("GeneratorExit", "StopIteration"):
                    raise
            generator.done = True

    def new_object(self, cls: Class) -> Instance:
        """What `object.__new__` gives: an object nothing was set on."""
        owner = Instance(cls, module=self.torch.is_module_class(cls))
        self.torch.prepare_object(owner, cls.library_bases())
        return owner

    def instantiate(self, cls: Class, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
        bases = cls.library_bases()
        special = self.torch.instantiate_special(cls, bases, args, kwargs, node)
        if special is not None:
            return special
        new = next((base.namespace["__new__"] for base in cls.mro() if "__new__" in base.namespace), None)
        if new is not None:
            made = self.call(new.function if isinstance(new, Wrapped) else new, [cls, *args], dict(kwargs), node)
            if not isinstance(made, Instance) or made.cls is None or cls not in made.cls.mro():
                return made
            owner = made
        else:
            owner = self.new_object(cls)
        if cls.kind == "dataclass" and not cls.defines("__init__"):
            kwargs.pop("**", None)
            records.fill(self, cls, owner, args, kwargs, node)
            return owner
        init = self.find_method(owner, "__init__")
        if init is not None:
            self.call(init, args, kwargs, node)
        else:
            kwargs.pop("**", None)
            self.torch.construct_base(owner, bases, args, kwargs, node)
        return owner

    # -- operators ------------------------------------------------------------------------------------------

    def _bin_op(self, node: ast.BinOp, env: Env) -> Value:
        return self.binary(node.op, self.eval(node.left, env), self.eval(node.right, env), node)

    def binary(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            if isinstance(left, str) and isinstance(op, ast.Mod):
                return Unknown("text")
            if isinstance(left, Instance) or isinstance(right, Instance):
                result = self._dunder(op, left, right, node)
                if result is not None:
                    return result
            return self.torch.operator(type(op).__name__, left, right, node)
        left, right = concrete(left), concrete(right)
        if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
            return constants.arithmetic(self, op, _BINARY.get(type(op)), left, right)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            if isinstance(left, str) or isinstance(right, str):
                return Unknown("text")
            return self.torch.unknown_operator(type(op).__name__, left, right, node)
        if isinstance(left, Instance) or isinstance(right, Instance):
            result = self._dunder(op, left, right, node)
            return containers.container_operator(self, op, left, right, node) if result is None else result
        return containers.container_operator(self, op, left, right, node)

    def _dunder(self, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
        name = _DUNDER.get(type(op), "")
        for owner, prefix, other in ((left, "__", right), (right, "__r", left)):
            if isinstance(owner, Instance):
                method = self.find_method(owner, f"{prefix}{name}__")
                if method is not None:
                    result = self.call(method, [other], {}, node)
                    if not (isinstance(result, Unknown) and result.name == "NotImplemented"):
                        return result
        return None

    def _unary_op(self, node: ast.UnaryOp, env: Env) -> Value:
        value = concrete(self.eval(node.operand, env))
        if isinstance(node.op, ast.Not):
            truth = self.known_truth(value)
            if truth is not None:
                return not truth
            result = Unknown("not")
            result.negated = value if isinstance(value, Unknown) else None
            return result
        if isinstance(value, Tensor):
            return self.torch.operator(type(node.op).__name__, value, None, node)
        if isinstance(value, Instance):
            method = self.find_method(value, _UNARY[type(node.op)])
            return self.call(method, [], {}, node) if method is not None else Unknown("unary")
        if isinstance(value, _NUMBERS):
            if isinstance(node.op, ast.USub):
                return -value
            if isinstance(node.op, ast.UAdd):
                return +value
            return ~value if isinstance(value, int) else Unknown("invert")
        return Unknown("unary", value.node, value.cuts) if isinstance(value, Unknown) else Unknown("unary")

    def _bool_op(self, node: ast.BoolOp, env: Env) -> Value:
        wanted = isinstance(node.op, ast.Or)
        value: Value = None
        for index, part in enumerate(node.values):
            value = self.eval(part, env)
            truth = self.known_truth(value)
            if truth is None:
                if index == len(node.values) - 1:
                    return value
                truth = self.world.choose(part, not wanted if isinstance(value, Tensor) else True, _text(part))
                self.settle(value, truth)
            if truth == wanted:
                return value
        return value

    def _compare(self, node: ast.Compare, env: Env) -> Value:
        if len(node.ops) == 1:
            return self.compare(node.ops[0], self.eval(node.left, env), self.eval(node.comparators[0], env), node)
        result: Value = True
        undecided: list[Value] = []
        for _, result in self._pairs(node, env):
            truth = self.known_truth(result)
            if truth is False:
                return False
            if truth is None:
                undecided.append(result)
        # Where several pairs are open, the answer of the whole says nothing of one of them.
        return result if not undecided else (undecided[0] if len(undecided) == 1 else Unknown("test"))

    def _pairs(self, node: ast.Compare, env: Env) -> Iterator[tuple[ast.expr, Value]]:
        """What each pair of a chain of comparisons comes to, with its right side; an operand is evaluated once."""
        left = self.eval(node.left, env)
        for op, comparator in zip(node.ops, node.comparators):
            right = self.eval(comparator, env)
            yield comparator, self.compare(op, left, right, node)
            left = right

    def compare(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
        if isinstance(op, (ast.Is, ast.IsNot)):
            same = equality.identical(left, right)
            if same is None:
                return self._unknown_test(op, left, right)
            return same if isinstance(op, ast.Is) else not same
        if isinstance(op, (ast.In, ast.NotIn)):
            inside = equality.contains(self, right, left)
            if inside is None:
                return self._unknown_test(op, left, right)
            return inside if isinstance(op, ast.In) else not inside
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self.torch.comparison(type(op).__name__, left, right, node)
        left, right = unknowns.resolved(self, left, node), unknowns.resolved(self, right, node)
        if isinstance(left, CONSTANTS) and isinstance(right, CONSTANTS):
            if isinstance(left, _NUMBERS) and isinstance(right, _NUMBERS):
                seen = self.world.operands.get(id(node))
                if seen is not None and seen != (left, right):
                    self.world.varying += 1
                self.world.operands[id(node)] = (left, right)
            try:
                return _COMPARE[type(op)](left, right)
            except TypeError:
                if self.handlers:
                    raise Signal("TypeError") from None
                return Unknown("comparison")
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return self._unknown_test(op, left, right)
        if isinstance(left, Instance) or isinstance(right, Instance):
            result = self._compare_objects(op, left, right, node)
            if result is not None:
                return result
        if isinstance(op, (ast.Eq, ast.NotEq)):
            same = equality.equal(left, right, self)
            if same is None:
                return Unknown("test")
            return same if isinstance(op, ast.Eq) else not same
        if isinstance(left, Set) or isinstance(right, Set):
            return containers.set_comparison(op, left, right)
        return containers.ordering(self, op, left, right, node)

    def _compare_objects(self, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
        """A comparison that an object's class sees to; None where it does not."""
        name, reflected = _RICH[type(op)]
        for owner, other, wanted in ((left, right, name), (right, left, reflected)):
            if not isinstance(owner, Instance) or owner.cls is None:
                continue
            method = self.find_method(owner, wanted)
            if method is not None:
                result = self.call(method, [other], {}, node)
                if not (isinstance(result, Unknown) and result.name == "NotImplemented"):
                    return result
        if isinstance(op, ast.NotEq):
            same = self._compare_objects(ast.Eq(), left, right, node)
            truth = None if same is None else self.known_truth(same)
            if truth is not None:
                return not truth
        if isinstance(left, Instance) and isinstance(right, Instance) and left.cls is right.cls:
            ordered = left.cls is not None and left.cls.options.get("order")
            if ordered and not isinstance(op, (ast.Eq, ast.NotEq)):
                return self.compare(op, records.compared(left), records.compared(right), node)
        return None

    def _unknown_test(self, op: ast.cmpop, left: Value, right: Value) -> Value:
        """An undecided comparison; the same question about the same unknown is the same value."""
        kind: type[ast.cmpop] = type(op)
        if not isinstance(left, Unknown) and kind in _MIRRORED:
            left, right, kind = right, left, _MIRRORED[kind]
        positive = _NEGATED.get(kind, kind)
        key = (positive.__name__, unknowns.expression(left), unknowns.expression(right))
        value = self.world.known.get(key)
        if value is None:
            value = self.world.known[key] = Unknown("test")
            # The parts keep what the key speaks of alive.
            value.parts = (f"test {positive.__name__}", left, right)
            if isinstance(left, Unknown) and isinstance(right, CONSTANTS):
                value.compared = (positive.__name__, left, right)
        if value.truth is None and value.compared is not None:
            value.truth = unknowns.decided(*value.compared)
        if value.truth is None and key[0] in _EXCLUSIVE:
            # Of less, equal and greater one answer excludes the others.
            others = [self.world.known.get((name, *key[1:])) for name in _EXCLUSIVE if name != key[0]]
            if any(other is not None and self.known_truth(other) for other in others):
                value.truth = False
        if positive is kind:
            return value
        result = Unknown("not")
        result.negated = value
        return result

    def _if_exp(self, node: ast.IfExp, env: Env) -> Value:
        return self.eval(node.body if self.test(node.test, env, node) else node.orelse, env)

    # -- displays -------------------------------------------------------------------------------------------

    def _elements(self, nodes: list[ast.expr], env: Env) -> tuple[list[Value], bool]:
        items: list[Value] = []
        more = False
        for node in nodes:
            if isinstance(node, ast.Starred):
                value = self.eval(node.value, env)
                known = containers.known_items(self, value, node)
                if known is None:
                    more = True
                    items.extend(containers.guessed_items(self, value, 1, node))
                else:
                    items.extend(known)
            else:
                items.append(self.eval(node, env))
        return items, more

    def _tuple(self, node: ast.Tuple, env: Env) -> Value:
        items, more = self._elements(node.elts, env)
        return List(items, more) if more else tuple(items)

    def _list(self, node: ast.List, env: Env) -> Value:
        items, more = self._elements(node.elts, env)
        return self.new_list(items, node, more)

    def new_list(self, items: list[Value], node: ast.AST, more: bool = False) -> List:
        return List(items, more, stored_at=self.world.site(node), born=self.world.clock)

    def _set(self, node: ast.Set, env: Env) -> Value:
        items, more = self._elements(node.elts, env)
        return Set(containers.distinct(items), more)

    def _dict(self, node: ast.Dict, env: Env) -> Value:
        result = Dict({}, born=self.world.clock)
        for key_node, value_node in zip(node.keys, node.values):
            value = self.eval(value_node, env)
            if key_node is None:
                if isinstance(value, Dict):
                    result.items.update(value.items)
                    result.more = result.more or value.more
                else:
                    result.more = True
                continue
            key = equality.hashable(self.eval(key_node, env))
            result.items[key] = value
            if isinstance(value, _HOLDERS):
                result.stores[key] = self.world.site(value_node)
                result.stamps[key] = self.world.clock
        return result

    def _lambda(self, node: ast.Lambda, env: Env) -> Value:
        return self.make_function(node, env, "<lambda>")

    def _rounds(self, generators: list[ast.comprehension], env: Env, known: list[bool], lazy: bool) -> Run:
        """The rounds of a comprehension's loops, with its names bound; `known` says whether their number is."""
        first, *others = generators
        stream = self.stream(self.eval(first.iter, env), first.iter)
        yield from self._over(stream, first, others, env, known, lazy)

    def _over(
        self, stream: Stream, first: ast.comprehension, others: list[ast.comprehension], env: Env, known: list[bool],
        lazy: bool,
    ) -> Run:  # fmt: skip
        start = index = stream.next
        while True:
            length = stream.length()
            if length is None:
                known[0] = False
                if not lazy and index - start >= 2:
                    return
            elif index >= length:
                return
            if index - start >= _MAX_ROUNDS:
                known[0] = False
                return
            self.world.spend(2)
            try:
                element = stream.item(index)
            except IndexError:
                return
            index += 1
            stream.next = index
            self.assign(first.target, element, env, first.target)
            for condition in first.ifs:
                truth = self.known_truth(self.eval(condition, env))
                if truth is None:
                    known[0] = False
                elif not truth:
                    break
            else:
                if others:
                    yield from self._rounds(others, env, known, lazy)
                else:
                    yield None

    def _list_comp(self, node: ast.ListComp | ast.SetComp, env: Env) -> Value:
        inner = Env(env, env.globals)
        inner.inner = True
        known = [True]
        items = [self.eval(node.elt, inner) for _ in self._rounds(node.generators, inner, known, False)]
        if isinstance(node, ast.SetComp):
            return Set(containers.distinct(items), not known[0])
        return self.new_list(items, node, not known[0])

    def _generator_exp(self, node: ast.GeneratorExp, env: Env) -> Value:
        inner = Env(env, env.globals)
        inner.inner = True
        first, *others = node.generators
        stream = self.stream(self.eval(first.iter, env), first.iter)
        whole = [True]
        rounds = self._over(stream, first, others, inner, whole, True)
        return Generator(self._lazily(node.elt, rounds, inner), inner, stream.length() is None, whole=whole)

    def _lazily(self, element: ast.expr, rounds: Run, env: Env) -> Run:
        """The values of a generator expression, each worked out when it is asked for."""
        home = self.world.frames[-1]
        while True:
            away = self.world.frames[-1] is not home
            if away:
                self.world.push(Frame(home.function, home.file, home.lines))
            try:
                next(rounds)
                value = self.eval(element, env)
            except StopIteration:
                return None
            finally:
                if away:
                    self.world.pop()
            yield value

    def _dict_comp(self, node: ast.DictComp, env: Env) -> Value:
        result = Dict({}, born=self.world.clock)
        inner = Env(env, env.globals)
        inner.inner = True
        known = [True]
        for _ in self._rounds(node.generators, inner, known, False):
            key = equality.hashable(self.eval(node.key, inner))
            result.items[key] = self.eval(node.value, inner)
            result.stores[key] = self.world.site(node.value)
            result.stamps[key] = self.world.clock
        result.more = not known[0]
        return result

    def _joined(self, node: ast.JoinedStr, env: Env) -> Value:
        parts = [self.eval(part, env) for part in node.values]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else Unknown("text")

    def _formatted(self, node: ast.FormattedValue, env: Env) -> Value:
        value = self.eval(node.value, env)
        spec = self.eval(node.format_spec, env) if node.format_spec is not None else ""
        return constants.formatted(self, value, spec, node.conversion, node)

    def _named(self, node: ast.NamedExpr, env: Env) -> Value:
        value = self.eval(node.value, env)
        while env.inner and env.parent is not None:
            env = env.parent
        self.store_name(node.target.id, value, env, node)
        return value

    # -- iterating ------------------------------------------------------------------------------------------

    def stream(self, value: Value, node: ast.AST) -> Stream:
        """Anything iterable as a stream of elements."""
        if isinstance(value, Stream):
            return value
        if isinstance(value, Instance):
            method = self.find_method(value, "__iter__") or self.find_method(value, "__aiter__")
            if method is not None:
                made = self.call(method, [], {}, node)
                if made is not value:
                    return self.stream(made, node)
            following = self.find_method(value, "__next__")
            if following is not None:
                # The length is asked for as if unknown, but the stream ends by itself: loops run it to its end.
                return Stream(lambda: 1_000_000, lambda i: self._next(following, node), sequential=True)
            getter = self.find_method(value, "__getitem__")
            if getter is not None:
                length = self.find_method(value, "__len__")
                size = concrete(self.call(length, [], {}, node)) if length is not None else None
                count = size if isinstance(size, int) else None
                return Stream(lambda: count, lambda i: self._item_until_end(getter, i, node))
            if "inner" in value.facts:
                return self.stream(value.facts["inner"], node)
            known = self.torch.object_stream(value, node)
            if known is not None:
                return known
        if isinstance(value, Tensor):
            return self.torch.tensor_stream(value, node)
        return containers.stream(self, value, node)

    def _next(self, method: Value, node: ast.AST) -> Value:
        try:
            return self.call(method, [], {}, node)
        except Signal as signal:
            if signal.kind == "StopIteration":
                raise IndexError from None
            raise

    def _item_until_end(self, getter: Value, index: int, node: ast.AST) -> Value:
        """An item of an object that is iterated by its `__getitem__`: IndexError is its end."""
        try:
            return self.call(getter, [index], {}, node)
        except Signal as signal:
            if signal.kind == "IndexError":
                raise IndexError from None
            raise

    def elements(self, value: Value, node: ast.AST) -> Iterator[Value]:
        """The elements of an iterable; three of one whose length nobody knows."""
        stream = self.stream(value, node)
        start = index = stream.next
        while True:
            length = stream.length()
            if index >= (length if length is not None else start + MIN_ITERATIONS) or index - start >= 256:
                return
            try:
                element = stream.item(index)
            except IndexError:
                return
            index += 1
            stream.next = index
            yield element


_EMPTY_BASES = frozenset((
    "builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol",
))  # fmt: skip
_CONTAINER_TYPES = [builtin.NAMES[name] for name in ("dict", "list", "set")]
_HOLDERS = (Tensor, Unknown, List, Dict, tuple, Instance, Generator)


def _extrapolated(values: list[Value], done: int, left: int | None) -> Value:
    """What a counter has come to at the end of a loop that was cut short, where each iteration adds the same."""
    steps = {after - before for before, after in zip(values, values[1:])}
    if left is None or done < 2 or len(steps) != 1 or len(values) % done:
        return Unknown("number")
    return values[-1] + steps.pop() * left * (len(values) // done)


def _text(node: ast.expr) -> str:
    """The source of a condition, worked out once."""
    text = getattr(node, "_tapecheck_text", None)
    if text is None:
        text = ast.unparse(node)
        node._tapecheck_text = text  # type: ignore[attr-defined]
    return str(text)


__all__ = ["Exhausted", "Machine"]
