"""The process of the editor: the server ends with it, even where another process holds its standard input open."""

from __future__ import annotations

import asyncio
import os
import sys

EVERY = 3.0
"""Seconds between two looks at it."""


async def until_gone(number: int) -> None:
    """Wait for the end of a process."""
    while alive(number):
        await asyncio.sleep(EVERY)


def alive(number: int) -> bool:
    """Return whether there is a process with this number."""
    if number <= 0:
        return False
    if sys.platform == "win32":
        return _alive_on_windows(number)
    try:
        os.kill(number, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def _alive_on_windows(number: int) -> bool:
    # There os.kill ends the process, whatever the signal.
    import ctypes

    synchronize, timed_out, access_denied = 0x00100000, 0x00000102, 5
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined, unused-ignore]
    handle = kernel.OpenProcess(synchronize, False, number)
    if not handle:
        return bool(ctypes.get_last_error() == access_denied)  # type: ignore[attr-defined, unused-ignore]
    try:
        return bool(kernel.WaitForSingleObject(handle, 0) == timed_out)
    finally:
        kernel.CloseHandle(handle)
