"""Run a program under torch with its hidden code."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def runs(text: str, **hidden: Any) -> bool:
    """Return whether a program runs to its end where its module `hidden` has these names; torch may refuse it."""
    module = ModuleType("hidden")
    vars(module).update(hidden)
    sys.modules["hidden"] = module
    try:
        exec(text, {})
    except RuntimeError:
        return False
    finally:
        del sys.modules["hidden"]
    return True
