"""Parameters in shards: come to them through what gathers them."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from tapecheck.fixes.candidate import Candidate, Context, Strategy, offered
from tapecheck.fixes.code import Code
from tapecheck.fixes.edit import Change
from tapecheck.fixes.story import touches
from tapecheck.source.nodes import of_kind
from tapecheck.tape import ShardUse

_REGISTER = "register_fsdp_forward_method"
_FSDP = "torch.distributed.fsdp"


def call_the_model(context: Context) -> Iterator[Candidate]:
    """Rewrite `model.forward(x)` to `model(x)`, which gathers."""
    for func in _methods(context):
        if func.attr == "forward" and not isinstance(func.value, ast.Call):
            change = context.code.replace(func, context.code.segment(func.value))
            effect = "The call gathers the parameters for its forward."
            yield from offered("Call the model instead of `.forward`", effect, change, safe=context.stops)
            return


def register(context: Context) -> Iterator[Candidate]:
    """Name the methods that are called beside `forward` to FSDP2, behind the place where the model is sharded."""
    code = context.code
    built = next((context.call_at(label.span) for label in context.labels("built")), None)
    func = next((each for each in _methods(context) if each.attr != "forward" and code.owner(each) is None), None)
    if built is None or func is None or not built.args or code.loops(built):
        return
    statement = code.statement(built)
    model = _name_of(code, built, statement)
    names = _called_beside(code, func, _defined(context))
    if statement is None or not model or func.attr not in names:
        return
    register, changes = _imported(code)
    lines = [f'{register}({model}, "{name}")' for name in names]
    effect = "A call of it gathers the parameters, as one of the model does."
    yield from offered(
        f"Register `{func.attr}` as a forward of the sharded model", effect,
        code.insert_after(statement, lines), *changes, safe=context.stops,
    )  # fmt: skip


def _called_beside(code: Code, func: ast.Attribute, defined: Container[str]) -> list[str]:
    """Return which defined methods a function calls of the object of whose method it calls `func`."""
    receiver = code.segment(func.value)
    called = (node.func for node in of_kind(code.function(func), ast.Call) if isinstance(node.func, ast.Attribute))
    names = (each.attr for each in called if code.segment(each.value) == receiver and each.attr in defined)
    return list(dict.fromkeys(names))


def _methods(context: Context) -> Iterator[ast.Attribute]:
    """Yield what was called on the way to the operation that met a shard, innermost first, where it is a method."""
    uses = (
        event for event in context.events(ShardUse) if event.how == "op" and touches(event.at, context.finding.span)
    )
    for use in uses:
        yield from (call.func for call, _ in context.calls(use.at) if isinstance(call.func, ast.Attribute))


def _defined(context: Context) -> set[str]:
    """Return the names of the methods that the program's classes have beside `forward`."""
    classes = (node for code in context.files for node in of_kind(code.tree, ast.ClassDef))
    methods = (each for node in classes for each in node.body if isinstance(each, ast.FunctionDef))
    return {each.name for each in methods if not each.decorator_list} - {"forward"}


def _name_of(code: Code, built: ast.Call, statement: ast.stmt | None) -> str:
    """Return what the sharded model is called behind the statement that shards it; "" where it has no name."""
    if isinstance(statement, ast.Assign) and statement.value is built and len(statement.targets) == 1:
        return code.segment(statement.targets[0])
    given = built.args[0]
    plain = isinstance(statement, ast.Expr) and isinstance(given, (ast.Name, ast.Attribute))
    return code.segment(given) if plain else ""


def _imported(code: Code) -> tuple[str, list[Change]]:
    """Return how this file calls `register_fsdp_forward_method`, with what it has to import for that."""
    for node in of_kind(code.tree, ast.ImportFrom):
        if node.module == _FSDP and node.level == 0:
            if any(alias.name == _REGISTER and alias.asname is None for alias in node.names):
                return _REGISTER, []
            text = code.segment(node)
            if not text.endswith(")"):
                return _REGISTER, [code.replace(node, f"{text}, {_REGISTER}")]
    module, changes = code.module(_FSDP)
    return f"{module}.{_REGISTER}", changes


STRATEGIES: tuple[Strategy, ...] = (call_the_model, register)
"""What is proposed, preferred first."""
