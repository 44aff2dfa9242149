"""`tapecheck version` and `tapecheck completion`."""

from __future__ import annotations

import argparse
import json
import platform

from tapecheck import torchfacts
from tapecheck.check import facts_for
from tapecheck.cli.shared import NOTHING_FOUND, UsageError, write
from tapecheck.source.project import Setup
from tapecheck.source.search import torch_of
from tapecheck.torchfacts.versions import release
from tapecheck.version import __version__

_PROGRAM = "train.py"
"""Stands for any program of the working directory; it need not be there."""
_FILES = ("FILE", "FILE_OR_DIR", "SCRIPT", "A.tape", "B.tape")


def print_version(output_format: str) -> int:
    """Print the version, the Python that runs it, and the torch whose facts hold in the working directory."""
    project = Setup().project_of(_PROGRAM)
    own, facts, measured = torch_of(project), facts_for(project), torchfacts.measured()
    known = {
        "version": __version__,
        "python": platform.python_version(),
        "torch_facts": facts,
        "torch_measured": list(measured),
        "torch": own,
    }
    if output_format == "json":
        write(json.dumps(known, indent=2) + "\n")
        return NOTHING_FOUND
    text = f"tapecheck {__version__} (Python {known['python']}, facts measured on torch {facts})\n"
    if own is not None and (release(own) or ())[:2] != (release(facts) or ())[:2]:
        others = f" of {', '.join(measured)}" if len(measured) > 1 else ""
        text += f"torch {own} runs here: facts of {facts} are the nearest{others}\n"
    write(text)
    return NOTHING_FOUND


def print_completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print a script that completes commands and options in a shell; raises UsageError without shtab."""
    try:
        import shtab
    except ImportError as error:
        raise UsageError("this needs the package shtab: pip install shtab") from error
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
