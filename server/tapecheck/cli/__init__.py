"""The command line: `check`, `run`, `serve`, `explain`. Each verb imports what it needs when it is called."""

from __future__ import annotations

from tapecheck.cli.main import main

__all__ = ["main"]
