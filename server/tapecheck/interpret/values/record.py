"""Named tuples."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import ClassVar

from tapecheck.interpret.values.base import BaseValue, Interpreter, Value, of_python
from tapecheck.interpret.values.constant import Tuple
from tapecheck.interpret.values.program import Class


class Record(tuple[Value, ...]):
    """A named tuple: a tuple that knows its class."""

    cls: Class

    def __new__(cls, owner: Class, items: Iterable[Value]) -> Record:
        made = super().__new__(cls, items)
        made.cls = owner
        return made


@of_python(Record)
class RecordValue(Tuple):
    """A named tuple's behaviour: that of a tuple, with the attributes of its class."""

    __slots__ = ()

    value: Record

    def type_of(self) -> BaseValue | str:
        return self.value.cls

    is_object: ClassVar[bool] = True

    def class_of(self) -> Value:
        return self.value.cls

    def is_of(self, cls: BaseValue) -> bool | None:
        return cls in self.value.cls.mro()

    def has_attribute(self, machine: Interpreter, name: str, node: ast.AST) -> bool | None:
        cls = self.value.cls
        return any(field.name == name for field in cls.fields or ()) or cls.defines(name)
