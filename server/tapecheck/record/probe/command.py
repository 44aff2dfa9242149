"""Runs the user's script as Python would, under the recorder."""

from __future__ import annotations

import atexit
import importlib.util
import io
import linecache
import os
import re
import shlex
import signal
import sys
import tokenize
import traceback
import types
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Collection, Dict, List, NoReturn, Optional, Sequence, Tuple

from . import PRODUCER
from .alive import Alive
from .children import record_spawned, tape_of
from .following import follow
from .recorder import OLDEST_TORCH, Limits, Recorder
from .signals import defer
from .sources import Sources
from .tracing import tracing_function
from .writer import Writer

NO_TORCH, OLD_TORCH = 97, 95
USAGE = """usage: python path/to/probe [--tape FILE] [--name NAME] [--watch FILE:LINE[,LINE...]]
       [--passes FILE:LINE[,LINE...]] [--max-iterations N] [--max-backward N]
       [--timeout SECONDS] [--max-tape-bytes N] [--alive FD_OR_FIFO]
       [--text FILE] [--instead FILE] [--notebook 1] [--seed N] [--rank 1] [--bytes 1] [--levels 0]
       [--children FOLDER] [--notes FOLDER] [--own FILE_OR_FOLDER] [--directory FOLDER] SCRIPT | -m MODULE [ARGS...]
"""
_OWN = os.path.dirname(os.path.abspath(__file__))


class Options:
    """The probe's own options; everything from the script on is the user's."""

    def __init__(self, arguments: List[str]) -> None:
        self.tape = "tapecheck-run.jsonl"
        self.name = ""
        self.text = ""
        self.instead = ""
        self.watch: List[str] = []
        self.passes: List[str] = []
        self.own: List[str] = []
        self.module = False
        self.alive = self.children = self.notes = self.directory = ""
        numbers: Dict[str, float] = {}
        rest = list(arguments)
        while rest and rest[0].startswith("--"):
            option = rest.pop(0)
            if option == "--":
                break
            option, _, value = option.partition("=")
            if option not in _OPTIONS:
                fail("unknown option " + option)
            if not value:
                if not rest:
                    fail(option + " needs a value")
                value = rest.pop(0)
            if option in _TEXTS:
                setattr(self, option[2:], value)
            elif option in _LISTS:
                getattr(self, option[2:]).append(value)
            else:
                try:
                    numbers[option] = float(value)
                except ValueError:
                    fail("%s needs a number, not %r" % (option, value))
        if rest and rest[0] == "-m":
            self.module = True
            del rest[0]
        if not rest:
            fail("no script given")
        self.ranked = bool(numbers.get("--rank"))
        if self.ranked:
            self.tape += ".rank" + rank()
        self.notebook = bool(numbers.get("--notebook"))
        self.bytes = bool(numbers.get("--bytes"))
        self.levels = bool(numbers.get("--levels", 1))
        self.seed = int(numbers["--seed"]) if "--seed" in numbers else None
        self.script = rest[0]
        self.arguments = rest
        self.limits = Limits(
            int(numbers.get("--max-iterations", 0)), int(numbers.get("--max-backward", 0)),
            numbers.get("--timeout", 0.0), int(numbers.get("--max-tape-bytes", 256_000_000)),
        )  # fmt: skip


_TEXTS = ("--tape", "--name", "--text", "--instead", "--alive", "--children", "--notes", "--directory")
_LISTS = ("--watch", "--passes", "--own")
_OPTIONS = (
    *_TEXTS, *_LISTS, "--max-iterations", "--max-backward", "--timeout", "--max-tape-bytes", "--notebook", "--seed",
    "--rank", "--bytes", "--levels",
)  # fmt: skip


_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK")


def rank() -> str:
    """Return this process's rank, from the environment that its launcher sets."""
    return next((os.environ[name] for name in _RANKS if os.environ.get(name, "").isdigit()), "0")


def fail(message: str) -> NoReturn:
    sys.stderr.write("tapecheck: %s\n%s" % (message, USAGE))
    raise SystemExit(2)


def replace(names: str, sources: Sources) -> None:
    """Have modules compiled from other texts than their files hold; `names` is a JSON object, file by file."""
    import json

    with open(names, encoding="utf-8") as file:
        texts: Dict[str, str] = json.load(file)
    compiled = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Optional[types.CodeType]:
        path = os.path.realpath(self.get_filename(fullname))
        if path not in texts:
            return compiled(self, fullname)
        # Not from the cache: that is of what the file holds.
        return self.source_to_code(texts[path].encode(), self.path)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
    for path, text in texts.items():
        lines = text.splitlines(True)
        linecache.cache[path] = (len(text), None, lines, path)
        sources.give(path, lines)


class TorchFinder:
    """Sees torch being imported and attaches the recorder once it has been executed."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: object) -> None:
        if loader is None or not hasattr(loader, "exec_module"):
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            # Torch makes some 200,000 calls while it is imported, none of them of interest.
            trace = tracing_function()
            sys.settrace(None)
            try:
                execute(module)
            finally:
                sys.settrace(trace)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            attach(self.recorder, module)

        loader.exec_module = exec_module


def attach(recorder: Recorder, torch: ModuleType) -> None:
    try:
        recorder.attach(torch)
    except Exception:
        recorder.failed()
        recorder.attached = False


def absolute(script: str) -> str:
    """Return the script's `__file__` as Python gives it: joined to the working directory, not normalised."""
    if os.path.isabs(script):
        return script
    return os.path.join(os.getcwd(), script[2:] if script.startswith("./") else script)


def strip(error: BaseException, seen: Optional[set] = None) -> None:  # type: ignore[type-arg]
    """Take the probe's own frames off the traceback of an exception and of those it came from."""
    seen = set() if seen is None else seen
    if id(error) in seen:
        return
    seen.add(id(error))
    frames = []
    step = error.__traceback__
    while step is not None:
        if os.path.dirname(step.tb_frame.f_code.co_filename) != _OWN:
            frames.append(step)
        step = step.tb_next
    kept: Optional[types.TracebackType] = None
    for step in reversed(frames):
        # A handler of a signal may have interrupted an instruction without a line.
        kept = types.TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno or 0)
    error.__traceback__ = kept
    for other in (error.__cause__, error.__context__):
        if other is not None:
            strip(other, seen)


def watched(values: List[str], sources: Sources) -> Dict[Tuple[str, int], int]:
    lines: Dict[Tuple[str, int], int] = {}
    for value in values:
        name, _, numbers = value.rpartition(":")
        for number in numbers.split(","):
            if name and number.isdigit():
                lines[(sources.resolve(name), int(number))] = 0
    return lines


def end_with(alive: str) -> None:
    """End the whole process group once the other end of a pipe closes: the process that asked for this run was killed.

    `alive` is the number of a file descriptor or, where a launcher passes none on, the path of a named pipe.
    A process of its own waits for that, none of the program's children: a thread would make Python warn at every
    fork. It is in the process group, too, so it goes when that is ended.
    """
    number = int(alive) if alive.isdigit() else -1
    child = os.fork()
    if child:
        if number >= 0:
            os.close(number)
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            # They are meant for the program, which may take its time to end.
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
            for other in range(256):
                if other != number:
                    try:
                        os.close(other)
                    except OSError:
                        pass
            if number < 0:
                number = os.open(alive, os.O_RDONLY)
            while os.read(number, 1):
                pass
            os.killpg(0, signal.SIGKILL)
    finally:
        os._exit(0)


def write_whole_lines() -> None:
    """Have `sys.stdout` written line by line, as in a terminal.

    Into a pipe Python writes only full blocks, which a killed process loses; unbuffered, as torchrun starts its
    processes, a `print` is several writes, and the lines of several processes mix within one another.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _program(options: Options, safe: bool) -> Program:
    """Return what is to be run, with the import path as Python would make it for that."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if sys.path and (os.path.abspath(sys.path[0]) == _OWN or (not safe and module is not None and module.parent)):
        # What Python put there for the probe: its own directory, or with -m the working directory.
        del sys.path[0]
    if options.module:
        if not safe:
            sys.path.insert(0, os.getcwd())
        return Module(options.script)
    script = Script(absolute(options.script), options.text, options.notebook)
    if not safe:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script.path)))
    return script


def main(loaded: Collection[str] = ()) -> None:
    options = Options(sys.argv[1:])
    write_whole_lines()
    if options.alive:
        try:
            end_with(options.alive)
        except OSError:
            pass
    safe = getattr(sys.flags, "safe_path", False)
    program = _program(options, safe)
    writer = Writer(options.tape, PRODUCER)
    if options.ranked:
        # A launcher starts its processes in sessions of their own: this is how they are found to be ended.
        with open(options.tape + ".pid", "w") as file:
            file.write(str(os.getpid()))
    try:
        program.find()
    except OSError as error:
        sys.stderr.write("tapecheck: can't open file %r: %s\n" % (options.script, error))
        writer.event("End", how="stopped", detail="can't open the script: %s" % error)
        writer.flush()
        raise SystemExit(2) from None
    recorder = recorder_of(options, program, writer)
    look_for_torch(recorder)
    ending = ending_of(recorder)
    if options.children:
        # Names on a tape are relative to where the run began, wherever the program goes.
        record_spawned(["--directory", recorder.sources.directory, *sys.argv[1:]], program.path)
    if hasattr(sys, "orig_argv"):
        flags = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv)]
        sys.orig_argv[:] = [*flags, *(["-m"] if options.module else []), *options.arguments]
    sys.argv[:] = options.arguments
    if not safe:
        give_way(loaded, sys.path[0])
    run(program, recorder, ending)


def look_for_torch(recorder: Recorder) -> None:
    """End the recording where there is no torch, or one that is too old: told before the program has run for hours."""
    torch = importlib.util.find_spec("torch")
    if torch is None:
        recorder.finish("stopped", "no torch: %s has no module named torch" % sys.executable)
        raise SystemExit(NO_TORCH)
    version = version_of(torch.origin)
    if version and version < OLDEST_TORCH:
        oldest, own = (".".join(map(str, parts)) for parts in (OLDEST_TORCH, version))
        told = "recording needs torch %s or later, %s has %s" % (oldest, sys.executable, own)
        recorder.finish("stopped", told)
        raise SystemExit(OLD_TORCH)


def ending_of(recorder: Recorder) -> Ending:
    """Return what writes the end of a recording, whichever way the process ends."""
    ending = Ending(recorder)
    # Registered first, so run last: what the user's own exit handlers do is still on the tape.
    atexit.register(ending.write)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=recorder.forked)
    return ending


def give_way(loaded: Collection[str], folder: str) -> None:
    """Have the program import its own modules where the recorder has loaded others of the same name.

    `loaded` are the modules that Python starts with, `folder` is where the program's own are looked for first.
    """
    try:
        beside = {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return
    for name in beside & sys.modules.keys() - set(loaded):
        found = (finder.find_spec(name, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.origin and os.path.join(spec.origin, "").startswith(os.path.join(folder, "")):
            for each in [each for each in sys.modules if each == name or each.startswith(name + ".")]:
                del sys.modules[each]


def version_of(torch: Optional[str]) -> Tuple[int, ...]:
    """Return the major and minor version of the torch whose `__init__.py` this is, () if unknown; imports nothing."""
    try:
        with open(os.path.join(os.path.dirname(torch or ""), "version.py"), encoding="utf-8") as file:
            found = re.search(r"^__version__.*?(\d+)\.(\d+)", file.read(), re.MULTILINE)
    except (OSError, ValueError):
        return ()
    return () if found is None else (int(found[1]), int(found[2]))


def recorder_of(options: Options, program: Program, writer: Writer) -> Recorder:
    """Return the recorder of a process of a program, with what it was asked for."""
    shown = options.name or (program.path if options.module else options.script)
    sources = Sources(program.path, shown, own=options.own, directory=options.directory)
    if program.lines is not None:
        sources.give(program.path, program.lines)
    if options.instead:
        replace(options.instead, sources)
    lines = watched(options.watch, sources)
    for name in {name for name, _ in lines}:
        sources.add(name)
    recorder = Recorder(sources, writer, options.limits, lines)
    recorder.tracer.passes = frozenset(watched(options.passes, sources))
    recorder.seeded.seed = options.seed
    words = ["python", *(["-m"] if options.module else []), *options.arguments]
    recorder.process.command = " ".join(map(shlex.quote, words))
    recorder.levels = options.levels
    if options.bytes:
        recorder.alive = Alive(recorder)
    recorder.process.notes = options.notes or options.children
    return recorder


def child(arguments: List[str], number: int, path: str, words: Dict[str, int]) -> None:
    """Run a process that the program spawned under a recorder of its own; `words` are for `spawn_main`."""
    from multiprocessing.spawn import spawn_main

    options = Options(arguments)
    write_whole_lines()
    program: Program = Module(options.script) if options.module else Script(path)
    program.path = path
    recorder = recorder_of(options, program, Writer(tape_of(options.children, number), PRODUCER))
    recorder.process.above = os.getppid()
    ending = ending_of(recorder)
    record_spawned(arguments, path)
    sys.meta_path.insert(0, TorchFinder(recorder))
    try:
        defer()
        follow(recorder.tracer)
    except Exception:
        recorder.failed()
    try:
        spawn_main(**words)
    except SystemExit as error:
        if error.code not in (None, 0):
            ending.detail = "exit code %s" % (error.code,)
        raise


class Program:
    """What is run as `__main__`: `path` is its file, `lines` its text where that is not the file's."""

    path: str
    lines: Optional[List[str]] = None

    def find(self) -> None:
        """Read it; raises OSError."""

    def prepare(self, space: Dict[str, object]) -> None:
        """Give the module its names, and compile what can be compiled before any of it runs."""
        if sys.version_info < (3, 14):
            space["__annotations__"] = {}

    def run(self, space: Dict[str, object]) -> None:
        """Execute it."""
        raise NotImplementedError


class Script(Program):
    """A file, as `python FILE` runs it."""

    def __init__(self, path: str, other: str = "", notebook: bool = False) -> None:
        self.path = path
        self.text = b""
        self.other = other
        self.notebook = notebook

    def find(self) -> None:
        with io.open_code(self.other or self.path) as file:
            self.text = file.read()
        if self.other:
            with tokenize.open(self.other) as source:
                self.lines = source.read().splitlines(True)
            # For tracebacks and `inspect`; an entry without a time of change is never looked up on disk.
            linecache.cache[self.path] = (len(self.text), None, self.lines, self.path)

    def prepare(self, space: Dict[str, object]) -> None:
        super().prepare(space)
        space["__file__"] = self.path
        space["__loader__"] = SourceFileLoader("__main__", self.path)
        if sys.version_info < (3, 14):
            space["__cached__"] = None
        if self.notebook:
            space["get_ipython"] = lambda: None
            space["display"] = print
        self.code: types.CodeType = compile(self.text, self.path, "exec", dont_inherit=True)

    def run(self, space: Dict[str, object]) -> None:
        exec(self.code, space)


class Module(Program):
    """A module, as `python -m NAME` runs it; the packages around it are imported first, as Python does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = self._guess()

    def _guess(self) -> str:
        """Return the module's file by the names of files alone, so that the recorder knows it before it runs
        anything.
        """
        parts = self.name.split(".")
        for place in sys.path:
            base = os.path.join(place or os.getcwd(), *parts)
            for path in (os.path.join(base, "__main__.py"), base + ".py"):
                if os.path.isfile(path):
                    return path
        return os.path.join(os.getcwd(), *parts) + ".py"

    def run(self, space: Dict[str, object]) -> None:
        import runpy

        sys.argv[0] = "-m"
        # What Python itself calls for `-m`: its frames stand in the traceback of an exception.
        runpy._run_module_as_main(self.name)  # type: ignore[attr-defined]


class Ending:
    """How the program ended, for the last line of the tape."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.how = "finished"
        self.detail = ""

    def write(self) -> None:
        try:
            self.recorder.finish(self.how, self.detail)
            self.recorder.tracer.stop()
        except Exception:
            self.recorder.failed()


def run(program: Program, recorder: Recorder, ending: Ending) -> None:
    module = types.ModuleType("__main__")
    space = module.__dict__
    space["__builtins__"] = sys.modules["builtins"]
    keep = sys.modules["__main__"]
    sys.modules["__main__"] = module
    try:
        program.prepare(space)
        if "torch" in sys.modules:
            attach(recorder, sys.modules["torch"])
        else:
            sys.meta_path.insert(0, TorchFinder(recorder))
        try:
            defer()
            follow(recorder.tracer)
        except Exception:
            recorder.failed()
        program.run(space)
    except SystemExit as error:
        if error.code not in (None, 0):
            ending.detail = "exit code %s" % (error.code,)
        raise
    except BaseException as error:
        ending.how, ending.detail = "raised", "%s: %s" % (type(error).__name__, str(error).split("\n")[0])
        try:
            recorder.raises.uncaught(error)
        except Exception:
            recorder.failed()
        strip(error)
        report(error, shown_here=program.lines is not None)
    finally:
        del keep


def report(error: BaseException, shown_here: bool) -> NoReturn:
    """Show an uncaught exception and end as Python does.

    Python's own hook reads lines from disk: `shown_here` where those are not what was run.
    """
    kind, trace = type(error), error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        if shown_here and sys.excepthook is sys.__excepthook__:
            traceback.print_exception(kind, error, trace)
        else:
            sys.excepthook(kind, error, trace)
    finally:
        if isinstance(error, KeyboardInterrupt):
            # Python ends by the signal itself then, so that a shell sees an interrupt.
            sys.excepthook = lambda *parts: None
            raise error
        raise SystemExit(1)
