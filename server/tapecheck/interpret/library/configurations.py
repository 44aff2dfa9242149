"""What the command line or a file fills: `tyro.cli(Args)` and its like give an object of the dataclass they are given.

Each field may have got another value than its default, so that it is unknown; its annotation says of what kind.
"""

from __future__ import annotations

import ast

from tapecheck.interpret import limits
from tapecheck.interpret.library.contract import Modules, Torch
from tapecheck.interpret.objects import unknowns
from tapecheck.interpret.objects.records import is_dataclass
from tapecheck.interpret.values import (
    NO_MODEL,
    Args,
    Class,
    Field,
    Instance,
    Kind,
    Kwargs,
    Unknown,
    Value,
    argument,
    is_constant,
    known_elements,
)

_KINDS = {"int": Kind.WHOLE, "float": Kind.NUMBER, "str": Kind.TEXT, "bool": Kind.PLAIN}
_PLAIN = frozenset((
    "int", "float", "str", "bool", "None", "bytes", "Optional", "Union", "Literal", "Path", "list", "List", "tuple",
    "Tuple", "set", "Set", "dict", "Dict", "Sequence", "Mapping",
))  # fmt: skip
_GIVEN = ("config_class", "f", "components")


def parsed(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what `tyro.cli(Args)` gives; NO_MODEL where it is given no dataclass."""
    cls = args[0] if args else next((kwargs[name] for name in _GIVEN if name in kwargs), None)
    return _made(torch, cls, node) if is_dataclass(cls) else NO_MODEL


def parser(torch: Torch, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return `HfArgumentParser((ModelArguments, TrainingArguments))`."""
    made = Instance(None, "transformers.HfArgumentParser")
    made.args = [argument(args, kwargs, 0, "dataclass_types")]
    return made


def parse(modules: Modules, owner: Instance, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what its methods give: an object of each class, and what is left of the arguments where that is asked."""
    given = owner.args[0] if owner.args else None
    known = known_elements(given)
    made = [
        _made(modules.torch, cls, node) if is_dataclass(cls) else Unknown("arguments")
        for cls in ([given] if known is None else known)
    ]
    if kwargs.get("return_remaining_strings"):
        made.append(Unknown.plain("arguments"))
    return tuple(made)


def _made(torch: Torch, cls: Class, node: ast.AST, depth: int = 0) -> Value:
    values: Kwargs = {}
    for field in cls.fields or ():
        if field.init:
            value = _value(torch, cls, field, node, depth)
            if value is not None:
                values[field.name] = value
    return torch.machine.call(cls, [], values, node)


def _value(torch: Torch, cls: Class, field: Field, node: ast.AST, depth: int) -> Value | None:
    """Return what a field holds; None where it is left to its default."""
    nested = cls.module.env.vars.get(field.annotation)
    if isinstance(nested, Class):
        followed = nested.kind == "dataclass" and depth < limits.MAX_NESTED_CONFIGURATIONS
        return _made(torch, nested, node, depth + 1) if followed else None
    parts = set(_words(field.annotation))
    constant = field.given and is_constant(field.default)
    if not constant and not (parts and parts <= _PLAIN):
        return None
    made = Unknown(field.name, None, (), _KINDS.get(field.annotation, Kind.PLAIN))
    if constant:
        unknowns.usually(made, field.default)
    return made


def _words(annotation: str) -> list[str]:
    """Return the names of types in an annotation, without their modules; nothing of what a Literal lists."""
    try:
        tree = ast.parse(annotation, mode="eval")
    except SyntaxError:
        return []
    found: list[str] = []
    queue: list[ast.AST] = [tree.body]
    for part in queue:
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                found.append(name)
            case ast.Constant(value=value):
                found.append(str(value))
            case ast.Subscript():
                queue.append(part.value)
                if not ast.unparse(part.value).endswith("Literal"):
                    queue.append(part.slice)
            case ast.BinOp():
                queue += [part.left, part.right]
            case ast.Tuple():
                queue += part.elts
            case _:
                found.append("?")
    return found
