"""`tapecheck version` and `tapecheck completion`."""

from __future__ import annotations

import argparse
import json
import platform

from tapecheck import __version__
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, write
from tapecheck.torchfacts import load

_FILES = ("FILE", "FILE_OR_DIR", "SCRIPT", "A.tape", "B.tape")


def print_version(output_format: str) -> int:
    """Print the version, the Python that runs it, and the torch that its facts were measured on."""
    known = {"version": __version__, "python": platform.python_version(), "torch_facts": load().torch_version}
    if output_format == "json":
        write(json.dumps(known, indent=2) + "\n")
    else:
        write(
            f"tapecheck {known['version']} (Python {known['python']}, facts measured on torch {known['torch_facts']})\n"
        )
    return NOTHING_FOUND


def print_completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print a script that completes commands and options in a shell; raises UsageError without shtab."""
    try:
        import shtab
    except ImportError as error:
        raise UsageError("this needs the package shtab: pip install 'tapecheck[completion]'") from error
    for action in _actions(parser):
        if action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    write(shtab.complete(parser, shell=shell) + "\n")
    return NOTHING_FOUND


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found: list[argparse.Action] = []
    for action in parser._actions:
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                found += _actions(inner)
    return found
