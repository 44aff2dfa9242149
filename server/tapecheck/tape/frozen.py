"""How the records of a tape are built: frozen for whoever reads them, and quick to make."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

_Class = TypeVar("_Class")


def built_directly(cls: type[_Class]) -> type[_Class]:
    """Give a frozen dataclass with slots a constructor that assigns its fields directly.

    The generated one calls `object.__setattr__` for each field, three times slower: a tape is tens of thousands of
    records. Here a record is filled as an object of an open twin with the same slots, and then made one of `cls`.
    """
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    names = [field.name for field in fields]
    twin = type(f"_Open{cls.__name__}", (), {"__slots__": tuple(names)})
    given = {f"_default_{field.name}": field.default for field in fields if field.default is not dataclasses.MISSING}
    parameters = [f"{name}=_default_{name}" if f"_default_{name}" in given else name for name in names]
    lines = [
        f"def __new__(cls, {', '.join(parameters)}):",
        "    record = _create(_twin)",
        *(f"    record.{name} = {name}" for name in names),
        "    record.__class__ = cls",
        "    return record",
    ]
    namespace: dict[str, Any] = {"_create": object.__new__, "_twin": twin, **given}
    exec("\n".join(lines), namespace)
    made: Any = cls
    made.__new__ = namespace["__new__"]
    made.__reduce__ = lambda record: (cls, tuple(getattr(record, name) for name in names))
    # What builds the record has filled it: nothing is left to initialise.
    del made.__init__
    return cls
