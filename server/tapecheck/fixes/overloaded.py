"""What classes of the program make of syntax that looks like a tensor's: operators, items, attributes that are set."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tapecheck.check import Report

_NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul", ast.Div: "truediv",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.In: "contains",
    ast.NotIn: "contains",
}  # fmt: skip
"""Python's name for what an operator calls, without the underscores and the letter of its other forms."""
_OF_TENSORS = ("__torch_function__", "__torch_dispatch__", "TorchFunctionMode", "TorchDispatchMode")
"""By these a program sees every op."""


def has_operator(report: Report, node: ast.BinOp | ast.UnaryOp | ast.Compare | ast.AugAssign) -> bool:
    """Return whether a class of the program may say itself what an operator does."""
    operators = node.ops if isinstance(node, ast.Compare) else [node.op]
    names = {name for one in operators if (name := _NAMES.get(type(one))) is not None}
    return _mention(report, *(f"__{form}{name}__" for name in names for form in ("", "r", "i")), *_OF_TENSORS)


def has_items(report: Report) -> bool:
    """Return whether a class of the program may say itself what its items are."""
    return _mention(report, "__getitem__", "__setitem__", "__class_getitem__", *_OF_TENSORS)


def sees_store(report: Report, attribute: str) -> bool:
    """Return whether a class of the program may do something where an attribute of that name is set."""
    setter = re.compile(rf"@{re.escape(attribute)}\.setter\b|\b{re.escape(attribute)}\s*=\s*property\(")
    return _mention(report, "__setattr__", "__set__") or any(setter.search(text) for text in report.texts)


def _mention(report: Report, *names: str) -> bool:
    return any(name in text for text in report.texts for name in names)
