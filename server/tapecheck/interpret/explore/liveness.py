"""Which names a piece of code reads before it stores them, and which are still read behind a place in a function.

Reads that a graph cannot matter to do not count: what is printed, formatted, or taken out as a number or a shape.
Attributes ("self.h") are not followed: who else reads them, no function can tell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tapecheck.interpret import limits
from tapecheck.interpret.objects.syntax import free_names
from tapecheck.interpret.values import ByKind
from tapecheck.source.nodes import children, given_to, id_of, of_kind, stored_to, taken_apart, walk
from tapecheck.source.notes import Notes, placeless

_TAKEN_OUT = frozenset(("device", "dim", "dtype", "item", "nelement", "numel", "numpy", "shape", "size", "tolist"))
_TELLING = frozenset(("float", "format", "int", "isinstance", "print", "repr", "str", "type"))

Names = frozenset[str]
_NONE: Names = frozenset()


class Liveness:
    """The names that are read behind each `if` and each assignment of a function, or of a module.

    Args:
        home: the function or the module; of the functions in it only the names that they read from it count.
        notes: those of its file.
    """

    def __init__(self, home: ast.AST, notes: Notes) -> None:
        self._notes = notes
        self._behind: dict[int, set[str]] = {}
        self._always: set[str] = set()
        self._loops = 0
        self._break: list[set[str]] = []
        self._continue: list[set[str]] = []
        self._handlers: list[set[str]] = []
        self.entry: Names = _NONE
        """The names that are read before they are stored."""
        body = getattr(home, "body", [])
        for node in walk(home):
            match node:
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    self._always.update(names)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() if node is not home:
                    self._always |= notes.of(node, free_names)
        if isinstance(body, list):
            self.entry = frozenset(self._block(body, set(self._always)))

    def behind(self, node: ast.AST) -> Names | None:
        """Return the names that may be read once a statement is through, None for one that was not come to."""
        names = self._behind.get(id(node))
        return frozenset(names | self._always) if names is not None else None

    def _reads(self, node: ast.AST) -> Names:
        # A loop within loops is gone through several times.
        return self._notes.of(node, _reads)

    def _block(self, statements: Sequence[ast.stmt], out: set[str]) -> set[str]:
        """Return the names that may be read from the first of some statements on; `out` are those behind them."""
        live = set(out)
        for statement in reversed(statements):
            # Here, not in a method of its own: a chain of `elif` takes a frame less for each.
            handler = _STATEMENTS.get(type(statement))
            live = handler(self, statement, live) if handler is not None else live | self._reads(statement)
            if self._handlers:
                live |= self._handlers[-1]
        return live

    def _expression(self, node: ast.Expr, out: set[str]) -> set[str]:
        return out | self._reads(node.value)

    def _assignment(self, node: ast.Assign | ast.AugAssign | ast.AnnAssign, out: set[str]) -> set[str]:
        if node.value is None:
            return out
        self._mark(node, out)
        targets = stored_to(node)
        live = out - _stores(targets)
        for target in targets:
            live |= self._reads(target)
        if isinstance(node, ast.AugAssign) and (name := id_of(node.target)):
            live.add(name)
        return live | self._reads(node.value)

    def _if(self, node: ast.If, out: set[str]) -> set[str]:
        self._mark(node, out)
        return self._block(node.body, out) | self._block(node.orelse, out) | self._reads(node.test)

    def _for(self, node: ast.For | ast.AsyncFor, out: set[str]) -> set[str]:
        return self._loop(node, out, _stores([node.target])) | self._reads(node.iter)

    def _while(self, node: ast.While, out: set[str]) -> set[str]:
        return self._loop(node, out, set())

    def _return(self, node: ast.Return, out: set[str]) -> set[str]:
        return self._always | (self._reads(node.value) if node.value is not None else set())

    def _break_out(self, node: ast.Break, out: set[str]) -> set[str]:
        return set(self._break[-1]) if self._break else out

    def _go_on(self, node: ast.Continue, out: set[str]) -> set[str]:
        return set(self._continue[-1]) if self._continue else out

    def _with(self, node: ast.With | ast.AsyncWith, out: set[str]) -> set[str]:
        live = self._block(node.body, out)
        live -= _stores(item.optional_vars for item in node.items if item.optional_vars is not None)
        for item in node.items:
            live |= self._reads(item.context_expr)
        return live

    def _raise(self, node: ast.Raise, out: set[str]) -> set[str]:
        live = set(self._handlers[-1]) if self._handlers else set(self._always)
        return live | self._reads(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, out: set[str]) -> set[str]:
        live = out - {node.name}
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            live |= self._reads(part)
        return live | self._notes.of(node, free_names)

    def _class(self, node: ast.ClassDef, out: set[str]) -> set[str]:
        return (out - {node.name}) | self._reads(node)

    def _match(self, node: ast.Match, out: set[str]) -> set[str]:
        live = set(out)
        for case in node.cases:
            live |= self._block(case.body, out) | (self._reads(case.guard) if case.guard is not None else set())
        return live | self._reads(node.subject)

    def _delete(self, node: ast.Delete, out: set[str]) -> set[str]:
        return out - _stores(node.targets)

    def _mark(self, node: ast.AST, out: set[str]) -> None:
        """Note what is live behind a statement, and behind the conditional expression that it stores."""
        self._behind.setdefault(id(node), set()).update(out)
        value = getattr(node, "value", None)
        if isinstance(value, (ast.IfExp, ast.BoolOp)):
            self._behind.setdefault(id(value), set()).update(out)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, out: set[str], stored: set[str]) -> set[str]:
        test = self._reads(node.test) if isinstance(node, ast.While) else _NONE
        head = self._block(node.orelse, out) | test
        self._loops += 1
        if self._loops > limits.MAX_NESTED_LOOPS:
            # Everything that the loop mentions, rather than what a further round would show.
            head |= {part.id for part in of_kind(node, ast.Name)}
        self._break.append(out)
        for _ in range(2 if self._loops <= limits.MAX_NESTED_LOOPS else 1):
            self._continue.append(head)
            head = head | (self._block(node.body, head) - stored) | test
            self._continue.pop()
        self._break.pop()
        self._loops -= 1
        return head

    def _try(self, node: ast.Try, out: set[str]) -> set[str]:
        last = self._block(node.finalbody, out)
        handlers: set[str] = set()
        for handler in node.handlers:
            handlers |= self._block(handler.body, last) | (
                self._reads(handler.type) if handler.type is not None else set()
            )
        otherwise = self._block(node.orelse, last)
        self._handlers.append(handlers | (self._handlers[-1] if self._handlers else set()))
        body = self._block(node.body, otherwise)
        self._handlers.pop()
        return body


_STATEMENTS: ByKind[Liveness, [set[str]], set[str]] = ByKind()
"""What gives the names before a statement, by its type."""
_STATEMENTS.register(Liveness._expression, ast.Expr)
_STATEMENTS.register(Liveness._assignment, ast.Assign)
_STATEMENTS.register(Liveness._assignment, ast.AugAssign)
_STATEMENTS.register(Liveness._assignment, ast.AnnAssign)
_STATEMENTS.register(Liveness._if, ast.If)
_STATEMENTS.register(Liveness._for, ast.For)
_STATEMENTS.register(Liveness._for, ast.AsyncFor)
_STATEMENTS.register(Liveness._while, ast.While)
_STATEMENTS.register(Liveness._return, ast.Return)
_STATEMENTS.register(Liveness._break_out, ast.Break)
_STATEMENTS.register(Liveness._go_on, ast.Continue)
_STATEMENTS.register(Liveness._raise, ast.Raise)
_STATEMENTS.register(Liveness._with, ast.With)
_STATEMENTS.register(Liveness._with, ast.AsyncWith)
_STATEMENTS.register(Liveness._try, ast.Try)
_STATEMENTS.register(Liveness._function, ast.FunctionDef)
_STATEMENTS.register(Liveness._function, ast.AsyncFunctionDef)
_STATEMENTS.register(Liveness._class, ast.ClassDef)
_STATEMENTS.register(Liveness._match, ast.Match)
_STATEMENTS.register(Liveness._delete, ast.Delete)
if hasattr(ast, "TryStar"):
    _STATEMENTS.register(Liveness._try, ast.TryStar)


def exposed(nodes: Iterable[ast.AST], notes: Notes) -> Names:
    """Return the names that a piece of code reads before it stores them."""
    nodes = list(nodes)
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    found: set[str] = set()
    for node in nodes:
        if not isinstance(node, ast.stmt):
            found |= _reads(node)
    if statements:
        found |= Liveness(ast.Module(statements, []), notes).entry
    return frozenset(found)


def _stores(targets: Iterable[ast.expr]) -> set[str]:
    """Return the names that are stored for certain."""
    return set(map(id_of, taken_apart(targets))) - {""}


_SCOPES = frozenset((ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp))
_TEXTS = frozenset((ast.JoinedStr, ast.Constant))


@placeless
def _reads(node: ast.AST) -> Names:
    """Return the names that an expression reads where a graph may matter to what it does."""
    found: set[str] = set()
    stack = [node]
    while stack:
        part = stack.pop()
        if type(part) is ast.Name:
            if type(part.ctx) is ast.Load:
                found.add(part.id)
        elif type(part) in _SCOPES:
            found |= free_names(part)
        elif type(part) is ast.Call:
            stack.extend(_parts_of_call(part))
        elif type(part) is ast.Attribute and part.attr in _TAKEN_OUT:
            stack += _calls_in(part.value)
        elif type(part) not in _TEXTS:
            stack.extend(children(part))
    return frozenset(found)


def _parts_of_call(call: ast.Call) -> Iterable[ast.AST]:
    """Return the parts of a call in which a graph may matter."""
    function = call.func
    if id_of(function) in _TELLING:
        return _calls_in(call)
    if isinstance(function, ast.Attribute):
        if function.attr in _TAKEN_OUT:
            # What is given a value is none of torch's methods of that name.
            given = any(map(id_of, call.args))
            return [*([function.value] if given else _calls_in(function.value)), *call.args]
    return children(call)


def _calls_in(node: ast.AST) -> list[ast.AST]:
    """The arguments of the calls in an expression whose value is only told: those calls may do more than that."""
    found: list[ast.AST] = []
    for part in of_kind(node, ast.Call):
        if part is not node:
            found += given_to(part)
            found += [part.func] if id_of(part.func) else []
    return found


__all__ = ["Liveness", "exposed"]
