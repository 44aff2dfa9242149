"""Operations on numbers by their names, as what is worked out again with other numbers goes through them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from tapecheck.interpret import limits


class Unclear(Exception):
    """A value is worked out in a way that cannot be gone through again."""


def power(base: float, exponent: float) -> float:
    """Return a power; raises `Unclear` where it would take too long to work it out many times."""
    if abs(exponent) >= limits.MAX_TRIED_EXPONENT:
        raise Unclear
    raised: float = base**exponent
    return raised


OPERATIONS: dict[str, Callable[..., float]] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Pow": power, "BitAnd": operator.and_, "BitOr": operator.or_,
    "BitXor": operator.xor, "abs": abs, "min": min, "max": max, "int": int, "float": float, "round": round,
    "ceil": math.ceil, "floor": math.floor, "test Gt": operator.gt, "test Lt": operator.lt, "test Eq": operator.eq,
}  # fmt: skip
"""Python's own operations and functions, by the names that `Origin` has for them."""
