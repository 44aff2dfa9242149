"""Entry point, by path (`python path/to/probe SCRIPT`) or as a module; readable by every Python 3."""

import sys

_LOADED = list(sys.modules)
"""What Python has loaded by itself: all the rest is not there for the program."""

if sys.version_info < (3, 9):
    sys.stderr.write("tapecheck: recording needs Python 3.9 or later, this is Python %d.%d\n" % sys.version_info[:2])
    sys.exit(96)


def _load():
    # type: () -> object
    """Import the package this file lies in, under a name that no module of the user's can have."""
    import importlib.util
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    name = "_tapecheck_probe"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    if spec is None or spec.loader is None:
        raise ImportError("the probe's files are incomplete in " + here)
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return importlib.import_module(name + ".command")


def child(arguments, number, path, words):
    # type: (object, int, str, object) -> None
    """Begin a process that the recorded program spawns."""
    _load().child(arguments, number, path, words)  # type: ignore[attr-defined]


if __name__ == "__main__":
    _load().main(_LOADED)  # type: ignore[attr-defined]
