"""Whether a name is all that holds a tensor: only then does a new tensor under it stand for the changed one."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from tapecheck.fixes.candidate import Context
from tapecheck.fixes.code import FUNCTIONS, Code, LoopNode, dotted, root_name
from tapecheck.fixes.hooks import registers_hook
from tapecheck.fixes.noticed import lists_names
from tapecheck.fixes.ops import hands_back, may_write, op_called, shares_memory
from tapecheck.fixes.overloaded import has_items, has_operator
from tapecheck.fixes.story import frames
from tapecheck.source.nodes import attr_of, given_to, id_of, is_literal, of_kind
from tapecheck.tape import Node, Span
from tapecheck.torchfacts import OpFact

_READ_ONLY = frozenset(f"builtins.{name}" for name in ("bool", "float", "int", "len", "print"))
_DATA = frozenset(("device", "dtype", "grad_fn", "is_leaf", "ndim", "requires_grad", "shape"))
_OTHER_TYPES = re.compile(
    r"\b(?:float16|bfloat16|half|float64|double|DoubleTensor|cdouble|complex\w*|cfloat|dtype\s*=|autocast|numpy|np|"
    r"from_numpy|as_tensor|asarray|load|set_default_\w+)"
)
"""What makes, or may bring along, tensors of another type than torch's default."""
_MAY_BE_ITS_ARGUMENT = frozenset(
    ("bool", "byte", "char", "double", "einsum", "long", "short", "sum_to_size", "to_sparse")
)
"""Ops of torch that return what they are given where there is nothing to do, or a view of it."""
_SHARED_WITH_ARRAYS = frozenset(("asarray", "from_dlpack", "from_numpy", "frombuffer", "numpy"))
"""Ops of torch whose result shares memory with something that is no tensor."""


def held_alone(context: Context, statement: ast.stmt, value: ast.expr) -> bool:
    """Return whether nothing but a name has the tensor that a statement changes, or anything that shares its memory.

    True only where the text and the tapes show it: the name is given a tensor made there, and from then until the
    change, in all rounds of the loops between them, nothing stores, returns a view of, or is handed the tensor.
    """
    return isinstance(value, ast.Name) and _Holders(context, statement, value.id).none()


def replaced_alone(context: Context, statement: ast.stmt, value: ast.expr) -> bool:
    """Return whether nothing reads a changed value but the expression that the change is in: it may stay unchanged."""
    holders = _Holders(context, statement, value.id if isinstance(value, ast.Name) else "")
    if not isinstance(value, ast.Name):
        return holders.is_fresh(value)
    if isinstance(statement, ast.Assign) and [dotted(target) for target in statement.targets] == [value.id]:
        return holders.none()
    return holders.none() and not holders.read_later()


def only_read(context: Context, statement: ast.stmt, value: ast.expr) -> bool:
    """Return whether a name is given a tensor made there, which nothing but a statement holds, views or changes."""
    return isinstance(value, ast.Name) and _Holders(context, statement, value.id).only_read()


def computes_with(context: Context, statement: ast.stmt, value: ast.expr) -> bool:
    """Return whether what an expression is part of computes with it, and neither keeps nor views it.

    It is a part of a tensor that a statement changes, which was made in the same function.
    """
    return _Holders(context, statement, root_name(value) or "").computes_with(value)


def keeps_type(context: Context, change: ast.AugAssign | ast.Call) -> bool:
    """Return whether a change computes out of place with the type that it has in place, whatever its operands are.

    In place a tensor keeps its type; a new one gets the wider type of the two.
    """
    given = [change.value] if isinstance(change, ast.AugAssign) else given_to(change)
    if all(_is_number(context.code, one) for one in given):
        return True
    return not any(_OTHER_TYPES.search(text) for text in context.report.texts)


def _is_number(code: Code, value: ast.expr) -> bool:
    if isinstance(value, ast.UnaryOp):
        return _is_number(code, value.operand)
    if isinstance(value, ast.Name):
        stores = code.stores(code.tree, value.id)
        return bool(stores) and all(isinstance(one, ast.Assign) and _is_constant(one.value) for one in stores)
    return _is_constant(value)


def _is_constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not isinstance(value.value, complex)


class _Built(NamedTuple):
    """Where the tapes have nodes, by name, and the calls that led to any."""

    nodes: dict[Span, set[str]]
    through: set[Span]


class _Holders:
    """What else may hold the tensor that a name has where a statement changes it."""

    def __init__(self, context: Context, statement: ast.stmt, name: str) -> None:
        self._context, self._code = context, context.code
        self._statement, self._name = statement, name
        self._scope = self._code.function(statement)
        # The functions whose parameters are looked at, each handed on by the one before.
        self._inside: list[ast.FunctionDef] = []
        self._own = {node.name for node in of_kind(self._code.tree, ast.FunctionDef)}
        self._places: _Built | None = None
        self._given = self._given_before()

    def none(self) -> bool:
        """Return whether nothing else holds it."""
        code, given = self._code, self._given
        if given is None or self._reaches_others():
            return False
        start, end = code.start(given), code.end(self._statement)
        for loop in self._loops_between():
            start, end = min(start, code.start(loop)), max(end, code.end(loop))
        loads = [load for load in code.loads(self._scope, self._name) if start <= code.start(load) < end]
        stores = [store for store in code.stores(self._scope, self._name) if start <= code.start(store) < end]
        return all(self._only_reads(load) for load in loads) and all(
            isinstance(store, ast.AugAssign) or store is self._statement or self._makes(store) for store in stores
        )

    def only_read(self) -> bool:
        """Return whether all that is done with the name beside the statement is to compute with it."""
        if self._given is None or self._reaches_others():
            return False
        stores = self._code.stores(self._scope, self._name)
        return all(map(self._makes, stores)) and all(
            self._only_reads(one) and not self._changes(one) for one in self._elsewhere()
        )

    def computes_with(self, value: ast.expr) -> bool:
        """Return whether the name is given a tensor made there, and what an expression is part of computes with it."""
        return self._given is not None and self._only_reads(value)

    def _elsewhere(self) -> list[ast.expr]:
        """Return where the name is read but in the statement."""
        loads = self._code.loads(self._scope, self._name)
        return [load for load in loads if not self._code.inside(load, self._statement)]

    def _changes(self, value: ast.expr) -> bool:
        """Return whether a method changes a value in place, or a view of it."""
        outer = self._code.parent(value)
        if isinstance(outer, ast.Call):
            fact = self._op(outer) if outer.func is value else None
            return (fact is not None and may_write(fact)) or self._changes(outer)
        return isinstance(outer, (ast.Attribute, ast.Subscript)) and (
            isinstance(outer.ctx, ast.Store) or self._changes(outer)
        )

    def read_later(self) -> bool:
        """Return whether the name is read after the statement, or in another round of a loop that binds it no more."""
        around = map(self._code.start, self._loops_between())
        start = min(around, default=self._code.end(self._statement))
        return any(self._code.start(load) >= start for load in self._elsewhere())

    def _given_before(self) -> ast.stmt | None:
        """Return the statement that gave the name a tensor made there, of those on the way to the change."""
        code, outer = self._code, self._statement
        while True:
            block = code.block(outer)
            for before in reversed(block[: block.index(outer)]):
                if self._makes(before):
                    return before
                # Given anew on some ways only, by what makes a tensor as well, it is as good.
                stored = [one for one in code.stores(before, self._name) if not isinstance(one, ast.AugAssign)]
                if not all(self._makes(one) for one in stored):
                    return None
            above = code.parent(outer)
            statement = code.statement(above) if above is not None and above is not self._scope else None
            if statement is None or statement is self._scope:
                return None
            if statement in code.stores(self._scope, self._name):
                # The target of a loop, or of a `with`.
                return None
            outer = statement

    def _loops_between(self) -> list[LoopNode]:
        """Return the loops around the change that the tensor outlives."""
        given = self._given
        return [
            loop for loop in self._code.loops(self._statement) if given is None or not self._code.inside(given, loop)
        ]

    def _reaches_others(self) -> bool:
        """Return whether other functions read or bind the name."""
        if any(self._binds(node) for node in ast.walk(self._code.tree)):
            return True
        # What lists the names may keep it, and what is called with what each layer computes, or each op saves.
        if lists_names(self._code) or registers_hook(self._context):
            return True
        inner = [node for node in ast.walk(self._scope) if isinstance(node, FUNCTIONS) and node is not self._scope]
        return any(self._code.named(node, self._name) for node in inner)

    def _binds(self, node: ast.AST) -> bool:
        """Return whether a node binds the name otherwise than a statement of its scope does."""
        if isinstance(node, ast.NamedExpr):
            return node.target.id == self._name
        return isinstance(node, (ast.Global, ast.Nonlocal)) and self._name in node.names

    def _makes(self, statement: ast.stmt) -> bool:
        """Return whether a statement gives the name, and nothing else, a tensor that is made there."""
        return (
            isinstance(statement, ast.Assign)
            and [dotted(target) for target in statement.targets] == [self._name]
            and self.is_fresh(statement.value)
        )

    def is_fresh(self, value: ast.expr) -> bool:
        """Return whether an expression makes a tensor that nothing has but who reads the expression."""
        if isinstance(value, ast.BinOp) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)):
            # `+x` is x itself.
            return self._is_of_tensors(value)
        if not isinstance(value, ast.Call):
            return False
        fact = self._op(value)
        if fact is not None:
            return _is_new(fact) and not _may_be_in_place(value)
        return self._is_native(value) and not self._may_share(value)

    def _is_of_tensors(self, value: ast.BinOp | ast.UnaryOp | ast.Compare) -> bool:
        """Return whether an operator is torch's or Python's own: no class of the program says what it does."""
        return self._is_native(value) or not has_operator(self._context.report, value)

    def _only_reads(self, value: ast.expr) -> bool:
        """Return whether what an expression is part of computes with it, and neither keeps nor views it."""
        outer = self._code.parent(value)
        match outer:
            case ast.FormattedValue() | ast.Expr() | ast.If() | ast.While() | ast.Assert():
                return True
            case ast.BinOp() | ast.Compare():
                return self._is_of_tensors(outer)
            case ast.UnaryOp(op=operator):
                return self._is_of_tensors(outer) and (not isinstance(operator, ast.UAdd) or self._only_reads(outer))
            case ast.AugAssign():
                return self._adds_up(outer)
            case ast.Return():
                # Who called gets it: whether that keeps it is asked where the call stands.
                return self._code.function(outer) is self._scope
            case ast.Subscript():
                return self._item_only_reads(outer, value)
            case ast.Attribute():
                return self._attribute_only_reads(outer)
            case ast.keyword() | ast.Starred():
                outer = self._code.parent(outer)
        if isinstance(outer, ast.Call):
            return self._call_only_reads(outer, value)
        return isinstance(outer, ast.Assign) and outer is self._statement and isinstance(value, ast.Call)

    def _item_only_reads(self, item: ast.Subscript, value: ast.expr) -> bool:
        """Return whether an item is neither a view of a value nor kept under it."""
        stored = isinstance(item.ctx, ast.Store)
        if item.slice is not value:
            return stored or self._only_reads(item)
        # A dict keeps its keys, and so may an object.
        return self._is_native(item) or not (stored or has_items(self._context.report))

    def _call_only_reads(self, call: ast.Call, value: ast.expr) -> bool:
        """Return whether a call, and what it gives is used for, only computes with one of its arguments."""
        if self._code.path(call.func) in _READ_ONLY:
            return True
        fact = self._op(call)
        if fact is not None:
            return (_is_new(fact) and not _may_be_in_place(call)) or self._only_reads(call)
        parameter = self._parameter(call, value)
        if parameter is not None:
            return self._parameter_only_read(*parameter)
        return self._is_native(call) and (not self._may_share(call) or self._only_reads(call))

    def _adds_up(self, statement: ast.AugAssign) -> bool:
        """Return whether the target is a sum: a list that a tensor is added to gets views of it."""
        if statement is self._statement:
            return True
        stores = self._code.stores(self._code.function(statement), id_of(statement.target))
        values = [store.value for store in stores if isinstance(store, ast.Assign)]
        return bool(values) and all(
            isinstance(value, ast.Constant)
            # `[x] * 2` is a list.
            or (self.is_fresh(value) and (self._is_native(value) or not isinstance(value, ast.BinOp)))
            for value in values
        )

    def _parameter(self, call: ast.Call, value: ast.expr) -> tuple[ast.FunctionDef, str] | None:
        """Return the function of this file that is called, and the parameter by which it is handed an expression."""
        if not isinstance(call.func, ast.Name) or value not in call.args or len(self._inside) > 3:
            return None
        name, defined = call.func.id, self._code.tree.body
        found = [one for one in defined if isinstance(one, ast.FunctionDef) and one.name == name]
        if len(found) != 1 or self._code.stores(self._code.tree, name) or found[0].decorator_list:
            return None
        plain, place = [*found[0].args.posonlyargs, *found[0].args.args], call.args.index(value)
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        return (found[0], plain[place].arg) if place < len(plain) and not starred else None

    def _parameter_only_read(self, function: ast.FunctionDef, name: str) -> bool:
        """Return whether a function only computes with what it is handed, and hands back no view of it."""
        self._inside.append(function)
        loads = self._code.loads(function, name)
        only = all(self._code.function(load) is function and self._only_reads(load) for load in loads)
        self._inside.pop()
        return only

    def _attribute_only_reads(self, outer: ast.Attribute) -> bool:
        if outer.attr in _DATA or not isinstance(outer.ctx, ast.Load):
            return isinstance(outer.ctx, ast.Load) or self._clears(outer)
        call = self._code.parent(outer)
        if not isinstance(call, ast.Call) or call.func is not outer:
            return self._only_reads(outer)
        if outer.attr == "backward":
            return True
        fact = self._op(call)
        if fact is None:
            return False
        return (_is_new(fact) and not fact.writing.mutates) or self._only_reads(call)

    def _clears(self, stored: ast.Attribute) -> bool:
        """Return whether an attribute is the gradient, which is set to None."""
        outer = self._code.parent(stored)
        return stored.attr == "grad" and isinstance(outer, ast.Assign) and is_literal(outer.value, None)

    def _op(self, call: ast.Call) -> OpFact | None:
        """Return the op of torch that a call is by its path, or by the name of a method that is nobody else's."""
        if attr_of(call.func) in self._own and not self._code.path(call.func):
            return None
        return op_called(self._code, call)

    def _is_native(self, value: ast.expr) -> bool:
        """Return whether the tapes show that a value is of nodes, and that none of the program's code runs for it."""
        built, span = self._built(), self._code.span(value)
        return span in built.nodes and span not in built.through

    def _may_share(self, value: ast.expr) -> bool:
        """Return whether what a call gives may share memory with what it is given."""
        return any(map(hands_back, self._built().nodes.get(self._code.span(value), ())))

    def _built(self) -> _Built:
        if self._places is None:
            self._places = _Built({}, set())
            for event in self._context.events(Node):
                # What unknown code gives has a node, too.
                if event.linked != "may":
                    self._places.nodes.setdefault(event.at.span, set()).add(event.op)
                self._places.through.update(frames(event.at)[1:])
        return self._places


def _may_be_in_place(call: ast.Call) -> bool:
    flagged = isinstance(call.func, ast.Attribute) and len(call.args) > 1 and is_literal(call.args[-1], True)
    return flagged or any(keyword.arg in ("inplace", "out", None) for keyword in call.keywords)


def _is_new(fact: OpFact) -> bool:
    """Return whether the result of an op shares no memory with anything."""
    shares = shares_memory(fact) or fact.aliasing.unversioned_view_of is not None
    return not shares and fact.name not in _SHARED_WITH_ARRAYS | _MAY_BE_ITS_ARGUMENT and not fact.writing.mutates
