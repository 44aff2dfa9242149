"""The engine of the dry run: one program being run, put together from its parts.

`python` says what the parts of the language do, `objects` what values do, `library` what libraries do; they ask one
another through the protocol in `engine`, which this class fulfils. Statements are run by Python generators, so that a
generator function of the program can be suspended at its `yield` wherever it stands.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterable
from collections.abc import Generator as PyGenerator

from tapecheck.interpret.library.registry import Libraries
from tapecheck.interpret.objects import algebra, containers, exceptions, methods, syntax, unknowns
from tapecheck.interpret.python import (
    attributes,
    calls,
    comprehensions,
    conditions,
    expressions,
    flow,
    functions,
    loops,
    statements,
    stores,
    summaries,
)
from tapecheck.interpret.python.imports import Imports
from tapecheck.interpret.state import Frame, World
from tapecheck.interpret.values import (
    Dict,
    Env,
    Generator,
    Lib,
    List,
    Module,
    Read,
    Run,
    Signal,
    Stream,
    Unknown,
    Value,
    WayOut,
    as_given,
    behaviour,
    listed,
    with_numbers,
)

_EVALUATE = expressions.EVALUATE
_SIMPLE = statements.SIMPLE
_COMPOUND = statements.COMPOUND


class Machine:
    """Runs the statements of one program in one world."""

    def __init__(self, world: World, imports: Imports) -> None:
        self.world = world
        self.imports = imports
        self.envs: list[Env] = []
        self.modules: dict[str, Module] = {}
        self.summaries: dict[int, summaries.Calls] = {}
        self.reads: list[Read] | None = None
        self.scopes: list[dict[str, Value]] = []
        self.handlers: list[frozenset[str]] = []
        self.unread: set[ast.AST] = set()
        self.gathering: list[tuple[ast.AST, List | Dict]] = []
        """What comprehensions and calls that take in an iterable have worked out so far."""
        self.handling: list[Signal] = []
        self.exits: list[Callable[[], object]] = []
        self.library = Libraries(self)
        self.torch = self.library.torch
        """Torch's model, for `explore`; every other part asks `library`."""

    def block(self, body: list[ast.stmt], env: Env) -> Run:
        """Run statements; answers None, BREAK, CONTINUE or a Returned."""
        world = self.world
        suspends = env.sent is not None
        for node in body:
            world.budget.spend()
            if suspends:
                for part in world.position.notes.of(node, syntax.yields_of):
                    yield from self.suspend(part, env)
            simple = _SIMPLE.get(type(node))
            if simple is not None:
                simple(self, node, env)
                continue
            compound = _COMPOUND.get(type(node))
            signal = self._way_out(node, env) if compound is None else (yield from compound(self, node, env))
            if signal is not None:
                return signal
        return None

    def _way_out(self, node: ast.stmt, env: Env) -> WayOut | None:
        """Return how a statement leads out of its block that does nothing else; None where it does not."""
        match node:
            case ast.Return(value=returned):
                value = expressions.written(self, returned, env) if returned is not None else None
                return flow.Returned(self._returned(value, env, node))
            case ast.Break():
                return flow.BREAK
            case ast.Continue():
                return flow.CONTINUE
        return None

    def _returned(self, value: Value, env: Env, node: ast.Return) -> Value:
        """Return what a function returns: what is missing in it may have computed that of all that the function has."""
        missing = self.world.omissions.missing
        if not missing or not isinstance(value, (Unknown, tuple)):
            return value
        if not any(id(one) in missing for part in listed(value) for one in unknowns.origins(part)):
            return value
        made = [
            self.library.opaque_result(one.name, list(env.vars.values()), {}, node) if isinstance(one, Unknown) else one
            for one in listed(value)
        ]
        return as_given(made, value)

    def run_module(self, module: Module, tree: ast.Module, name: str) -> None:
        """Run a module's statements in its namespace."""
        env = module.env
        env.vars.update({"__name__": name, "__file__": module.path, "__doc__": None})
        self.envs.append(env)
        self.world.position.push(Frame("<module>", module))
        try:
            for _ in self.block(tree.body, env):
                pass
        finally:
            self.world.position.pop()
            self.envs.pop()

    def run_exits(self, module: Module) -> None:
        """Run what the program has left to be called at its end, the last one first; an exception ends one alone."""
        self.envs.append(module.env)
        self.world.position.push(Frame("<module>", module))
        try:
            while self.exits:
                with contextlib.suppress(Signal):
                    self.exits.pop()()
        finally:
            self.world.position.pop()
            self.envs.pop()

    def eval(self, node: ast.expr, env: Env) -> Value:
        handler = _EVALUATE.get(type(node))
        if handler is None:
            return Unknown(type(node).__name__)
        return handler(self, node, env)

    def suspend(self, node: ast.Yield | ast.YieldFrom, env: Env) -> PyGenerator[Value, Value, None]:
        """Run a yield ahead of the statement it stands in; the statement then finds what it gave."""
        value = self.eval(node.value, env) if node.value is not None else None
        env.yielded += 1
        if isinstance(node, ast.Yield):
            result = yield value
        elif isinstance(value, Generator):
            result = yield from value.run
        else:
            yield from self.elements(value, node, perhaps_none=True)
            result = None
        if env.sent is not None:
            env.sent[node] = result

    def wrong(self, kind: str, node: ast.AST, *, own: bool = False) -> None:
        """Raise an exception of Python's own where the program looks out for one, note it where it does not.

        What the dry run knows of a program may be wrong: it goes on past an exception that nobody expects. One that the
        program raises itself (`own`) hangs on the answers that this way has guessed.
        """
        if self.expects(kind):
            raise Signal(kind)
        if own:
            self.world.omissions.mistake(kind, node, missed=syntax.missed(self, node))
        else:
            self.doubt(kind, node)

    def expects(self, kind: str, value: Value = None) -> bool:
        """Whether a block that is being run catches an exception of a class, of which `value` may be one."""
        return bool(self.handlers) and exceptions.looked_out_for(self, kind, value)

    def doubt(self, kind: str, node: ast.AST) -> None:
        """Note an exception that Python may raise here: what comes after it is not certain."""
        missed = syntax.missed(self, node)
        if not missed:
            self.library.lost_gradient(kind, node)
        if self.world.omissions.mistake(kind, node, missed=missed) and not missed:
            self.world.assumptions.note_exception(kind, node)

    def module_of(self, env: Env) -> Module:
        module = env.globals.module
        assert module is not None
        return module

    def import_module(self, name: str, node: ast.AST, level: int) -> Value:
        """Return a user's module run from its source, or the library name."""
        module = self.imports.import_module(self, name, level, self.world.position.frames[-1].file)
        if type(module) is Lib:
            self.library.imported(module.path, node)
        return module

    def submodule(self, package: Module, name: str) -> Value | None:
        """Return a submodule of a user's package, run from its source; None where it has none of that name."""
        return self.imports.submodule(self, package, name)

    def forget_module(self, path: str) -> None:
        """Run a module anew the next time: its state was changed."""
        self.imports.forget(path)

    def new_list(self, items: list[Value], node: ast.AST, more: int = 0) -> List:
        return List(
            items, with_numbers(more, items), stored_at=self.world.position.site(node), born=self.world.position.clock
        )

    def unknown(self, name: str) -> Value:
        """Return a value that nobody can know."""
        return Unknown(name)

    def operates(self, values: Iterable[Value], node: ast.AST) -> None:
        """Note that Python runs what the classes of some values say, where these are not visible."""
        asked, streams = list(values), set[int]()
        for value in asked:
            if type(value) is Unknown or type(value) is Lib:
                self.library.runs_unseen(value, node)
            elif type(value) is Stream and id(value) not in streams:
                # Each once, however many ways lead to it: `zip(pairs, pairs)` of what is such a one itself.
                streams.add(id(value))
                asked += (*value.over, *value.sources)

    def _taken_from(self, value: Value, node: ast.AST) -> None:
        """Note that parts are taken out of a value, or that it is gone over."""
        if type(value) is Unknown or type(value) is Lib:
            self.library.gives_data(value, node)

    def get_attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        if type(owner) is Unknown:
            # What a module has under a name is there.
            self.library.runs_unseen(owner, node)
        return behaviour(owner).get_attribute(self, name, node)

    def get_item(self, owner: Value, index: Value, node: ast.AST) -> Value:
        self.operates((owner,), node)
        self._taken_from(owner, node)
        return behaviour(owner).get_item(self, index, node)

    def set_item(self, owner: Value, index: Value, value: Value, node: ast.AST) -> None:
        self.operates((owner,), node)
        behaviour(owner).set_item(self, index, value, node)

    def stream(self, value: Value, node: ast.AST) -> Stream:
        """Return anything that can be iterated as a stream of elements."""
        self.operates((value,), node)
        self._taken_from(value, node)
        made = behaviour(unknowns.setting(self, value)).stream(self, node)
        if made is not value and not made.over and not isinstance(value, Dict):
            # Of a dict only the keys are gone over.
            made.over = (value,)
        return made

    test = conditions.test
    known_truth = conditions.known_truth
    settle = conditions.settle
    compare = conditions.compare
    unknown_test = conditions.unknown_test

    instance_attribute = attributes.instance_attribute
    super_attribute = attributes.super_attribute
    property_part = staticmethod(functions.property_part)
    method_of = methods.attribute
    has_method = staticmethod(methods.has_method)
    class_attribute = attributes.class_attribute
    complete = attributes.complete
    find_method = attributes.find_method
    special = attributes.special

    guessed = unknowns.guessed
    stored_before = containers.same_key
    stored_under = algebra.stored_under

    assign = stores.assign
    store_name = stores.store_name
    home_of = stores.home_of
    set_attribute = stores.set_attribute
    set_instance_attribute = stores.set_instance_attribute
    touched = stores.touched
    store_attribute = stores.store_attribute
    name_tensor = stores.name_tensor
    escape = stores.escape
    delete_attribute = statements.delete_attribute

    call = calls.call
    call_function = calls.call_function
    instantiate = calls.instantiate
    make_function = calls.make_function
    new_object = calls.new_object
    resume = calls.resume
    close = calls.close

    binary = expressions.binary
    elements = loops.elements
    takes_nothing = loops.takes_nothing
    gathered = comprehensions.gathered
    trained = comprehensions.trained
    exception_info = staticmethod(exceptions.info)
    enter = statements.enter
    leave = statements.leave
    caught = statements.caught


__all__ = ["Machine"]
