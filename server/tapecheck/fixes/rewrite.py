"""Rewriting expressions and small statements with their formatting kept: the only module that uses libcst.

Every function takes and returns source text. They raise RewriteError where the text has not the expected form.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import libcst as cst

_BINARY: dict[type[cst.BaseAugOp], type[cst.BaseBinaryOp]] = {
    cst.AddAssign: cst.Add,
    cst.SubtractAssign: cst.Subtract,
    cst.MultiplyAssign: cst.Multiply,
    cst.DivideAssign: cst.Divide,
    cst.FloorDivideAssign: cst.FloorDivide,
    cst.ModuloAssign: cst.Modulo,
    cst.PowerAssign: cst.Power,
    cst.MatrixMultiplyAssign: cst.MatrixMultiply,
    cst.BitAndAssign: cst.BitAnd,
    cst.BitOrAssign: cst.BitOr,
    cst.BitXorAssign: cst.BitXor,
    cst.LeftShiftAssign: cst.LeftShift,
    cst.RightShiftAssign: cst.RightShift,
}
_ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp,
    cst.SetComp, cst.GeneratorExp, cst.SimpleString, cst.FormattedString,
)  # fmt: skip


class RewriteError(ValueError):
    """The text is not of the form that the rewrite is for."""


def expression(text: str) -> cst.BaseExpression:
    """Parse an expression that may go over several lines."""
    try:
        # Within parentheses line breaks mean nothing, as they do where the text was taken from.
        node = cst.parse_expression(f"({text}\n)")
    except (cst.ParserSyntaxError, cst.CSTValidationError) as error:
        raise RewriteError(text) from error
    if not node.lpar:
        raise RewriteError(text)
    return node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])


def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node).rstrip("\n")


def parenthesized(text: str) -> str:
    """Return the expression, in parentheses unless it stands as an operand of anything already."""
    node = expression(text)
    return text if isinstance(node, _ATOMS) or node.lpar else f"({text})"


def with_suffix(text: str, suffix: str) -> str:
    """Rewrite `x` to `x.detach()`, `a + b` to `(a + b).detach()`."""
    return parenthesized(text) + suffix


def receiver(text: str) -> str:
    """`x.detach()` or `x.data` to `x`."""
    node = expression(text)
    if isinstance(node, cst.Call):
        node = node.func
    if not isinstance(node, cst.Attribute):
        raise RewriteError(text)
    return code(node.value)


def only_argument(text: str) -> str:
    """Rewrite `torch.tensor(x, dtype=...)` to `x`."""
    node = expression(text)
    if not isinstance(node, cst.Call) or not node.args or node.args[0].star or node.args[0].keyword:
        raise RewriteError(text)
    return code(node.args[0].value)


def argument(text: str, name: str, position: int | None = None) -> str | None:
    """Return the text of a call's argument, by keyword or else by position; None where there is none."""
    call = _call(text)
    index = _find(call, name, position)
    return None if index is None else code(call.args[index].value)


def without_argument(text: str, name: str, position: int | None = None) -> str:
    """Return the call without that argument; the formatting of the others stays."""
    call = _call(text)
    index = _find(call, name, position)
    if index is None:
        raise RewriteError(text)
    args = list(call.args)
    # Arguments behind a dropped positional one would move up into its place.
    if args[index].keyword is None and any(arg.keyword is None and not arg.star for arg in args[index + 1 :]):
        raise RewriteError(text)
    removed = args.pop(index)
    if index == len(args) and args:
        last = args[-1]
        args[-1] = last.with_changes(comma=removed.comma, whitespace_after_arg=removed.whitespace_after_arg)
    result = call.with_changes(args=args)
    if not args:
        result = result.with_changes(whitespace_before_args=cst.SimpleWhitespace(""))
    return code(result)


def with_argument(
    text: str, name: str, value: str, *, position: int | None = None, replacing: Collection[str] = ()
) -> str:
    """Return the call with `name=value`: in the place of the argument it has, of one in `replacing`, or at the end."""
    call = _call(text)
    args = list(call.args)
    new = cst.parse_expression(value)
    index = _find(call, name, position)
    if index is not None:
        args[index] = args[index].with_changes(value=new)
        return code(call.with_changes(args=args))
    for other in replacing:
        index = _find(call, other, None)
        if index is not None:
            args[index] = args[index].with_changes(keyword=cst.Name(name), value=new)
            return code(call.with_changes(args=args))
    fresh = cst.Arg(
        keyword=cst.Name(name),
        value=new,
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if len(args) == 1 and isinstance(args[0].value, cst.GeneratorExp) and not args[0].value.lpar:
        raise RewriteError(text)
    if args:
        last = args[-1]
        if isinstance(last.comma, cst.Comma):
            separator = args[-2].comma if len(args) > 1 else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            fresh = fresh.with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
            args[-1] = last.with_changes(comma=separator)
        else:
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            fresh = fresh.with_changes(whitespace_after_arg=last.whitespace_after_arg)
            args[-1] = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    return code(call.with_changes(args=[*args, fresh]))


def out_of_place(text: str) -> str:
    """Rewrite `x += y` to `x = x + y`."""
    try:
        module = cst.parse_module(text)
        statement = module.body[0]
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    except (cst.ParserSyntaxError, IndexError) as error:
        raise RewriteError(text) from error
    if not isinstance(small, cst.AugAssign) or type(small.operator) not in _BINARY:
        raise RewriteError(text)
    right = small.value
    if not right.lpar and not _binds_tighter(right, small.operator):
        right = right.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    operator = _BINARY[type(small.operator)]()
    target = code(small.target)
    spaced = f"{code(small.operator)}"
    before = spaced[: len(spaced) - len(spaced.lstrip())]
    after = spaced[len(spaced.rstrip()) :]
    sign = code(operator).strip()
    return f"{target}{before}={after}{target} {sign} {code(right)}"


def method_out_of_place(text: str) -> str:
    """Rewrite `x.relu_()` to `x.relu()`."""
    call = _call(text)
    if not isinstance(call.func, cst.Attribute) or not call.func.attr.value.endswith("_"):
        raise RewriteError(text)
    name = call.func.attr.value.rstrip("_")
    if not name:
        raise RewriteError(text)
    return code(call.with_deep_changes(call.func.attr, value=name))


def elements(text: str, change: Callable[[str], str | None]) -> str:
    """Return a tuple or list display with each element passed through `change`; None keeps the element."""
    node = expression(text)
    if not isinstance(node, (cst.Tuple, cst.List)):
        raise RewriteError(text)
    changed: list[cst.BaseElement] = []
    for element in node.elements:
        new = change(code(element.value)) if isinstance(element, cst.Element) else None
        changed.append(element if new is None else element.with_changes(value=expression(new)))
    return code(node.with_changes(elements=changed))


def _binds_tighter(right: cst.BaseExpression, operator: cst.BaseAugOp) -> bool:
    """Return whether `right` needs no parentheses as the right operand of the operator."""
    if isinstance(right, (*_ATOMS, cst.Integer, cst.Float)):
        return True
    if isinstance(operator, (cst.AddAssign, cst.SubtractAssign)):
        products = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.MatrixMultiply, cst.Power)
        return isinstance(right, cst.BinaryOperation) and isinstance(right.operator, products)
    return False


def _call(text: str) -> cst.Call:
    node = expression(text)
    if not isinstance(node, cst.Call):
        raise RewriteError(text)
    return node


def _find(call: cst.Call, name: str, position: int | None) -> int | None:
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            return index
    if position is not None and position < len(call.args):
        leading = call.args[: position + 1]
        if all(arg.keyword is None and not arg.star for arg in leading):
            return position
    return None
