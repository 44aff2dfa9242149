"""Arguments, exit status and the way to each verb."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn

from tapecheck.cli.shared import ANYWHERE, FAILED, INTERRUPTED, UsageError, reader_left, say
from tapecheck.report.checked import DEFAULT_LEVEL
from tapecheck.report.excerpt import printable
from tapecheck.report.formats import FORMATS
from tapecheck.source.configuration import LEVELS, did_you_mean, valid_pattern
from tapecheck.source.project import MOST_EFFORT
from tapecheck.source.suppress import rule_name
from tapecheck.version import __version__

_CHOICE = re.compile(r"invalid choice: '(.+)' \(choose from (.+)\)")
"""How argparse tells of a word that is none of several; Python 3.12 and later write those without quotes."""

SHELLS = ("bash", "zsh", "fish", "powershell", "tcsh")

_DESCRIPTION = "A borrow checker for PyTorch's autograd graph."
_EXIT = """\
exit status:
  0  nothing found that fails (hints do not, see --fail-on)
  1  findings, or a file that cannot be read or parsed
  2  wrong usage, or an internal error
"""


_RUN_EXIT = """\
exit status, whatever the script's own:
  0  every finding was refuted or not reached
  1  a finding was confirmed, found by the run or inconclusive, or the script cannot be parsed
  2  wrong usage, or an internal error
  3  nothing found, but the run was cut short or trained nothing
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; usage errors raise SystemExit(2) as argparse does."""
    _open_streams()
    options = _parsed(arguments)
    try:
        with _ended_by_sigterm(options.verb == "check"):
            return _verb(options)
    except UsageError as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt as interrupt:
        say("interrupted")
        return 128 + signal.SIGTERM if isinstance(interrupt, _Terminated) else INTERRUPTED
    except BrokenPipeError:
        return reader_left()


class _Terminated(KeyboardInterrupt):
    """SIGTERM came: the command ends as by Ctrl+C, with the exit status of that signal."""


@contextlib.contextmanager
def _ended_by_sigterm(wanted: bool) -> Iterator[None]:
    """Let SIGTERM end the command in order, with its processes; `run` has a way of its own."""
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> NoReturn:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _open_streams() -> None:
    """Open what was closed of standard input, output and error: a file of ours would come under its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: those before it are open by now.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _verb(options: argparse.Namespace) -> int:
    if options.verb == "check":
        if options.watch:
            from tapecheck.cli.watch import watch_paths

            return watch_paths(options)
        from tapecheck.cli.check import check_paths

        return check_paths(options)
    if options.verb == "run":
        from tapecheck.cli.run import run_script

        return run_script(options)
    if options.verb == "diff":
        from tapecheck.cli.diff import diff_tapes

        return diff_tapes(options)
    if options.verb in ("rule", "explain"):
        from tapecheck.cli.explain import explain_rule

        return explain_rule(options.rule, options.output_format, everything=options.all)
    if options.verb == "debug" and options.what == "report":
        from tapecheck.cli.reproducer import report

        return report(options)
    if options.verb == "debug":
        from tapecheck.cli.debug import trace

        return trace(options)
    if options.verb == "graph":
        from tapecheck.cli.graph import draw_graph

        return draw_graph(options)
    if options.verb == "version":
        from tapecheck.cli.about import print_version

        return print_version(options.output_format)
    if options.verb == "completion":
        from tapecheck.cli.about import print_completion

        return print_completion(_parser(), options.shell)
    if options.verb == "mcp":
        from tapecheck.cli.mcp_server import serve_tools

        return serve_tools()
    from tapecheck.lsp.server import serve

    return serve()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors cannot steer the terminal: arguments may be names of files that a shell filled in."""

    def error(self, message: str) -> NoReturn:
        if found := _CHOICE.search(message):
            message += did_you_mean(found[1], [name.strip(" '") for name in found[2].split(",")])
        super().error(printable(message))


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments read; one that its verb does not have is an error, with the option that it is nearest to."""
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        # As Ruff and cargo have it: whoever types the name alone wants to know what there is.
        parser.print_help()
        parser.exit(FAILED)
    options, unknown = parser.parse_known_args(arguments)
    if options.verb == "check" and not any(name.startswith("-") and name != "-" for name in unknown):
        # argparse takes the first files in a row alone: `check a.py --fix b.py`.
        options.paths += unknown
    elif unknown:
        _refuse(parser, options.verb, unknown)
    return options


def _refuse(parser: argparse.ArgumentParser, verb_name: str, unknown: list[str]) -> NoReturn:
    verbs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    verb: argparse.ArgumentParser = verbs.choices[verb_name]
    names = [name for action in verb._actions for name in action.option_strings if name.startswith("--")]
    hints = [did_you_mean(name.partition("=")[0], names) for name in unknown if name.startswith("--")]
    verb.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, hints), '')}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tapecheck",
        description=_DESCRIPTION,
        epilog=_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tapecheck {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    check = verbs.add_parser(
        "check",
        usage="tapecheck check [OPTIONS] [FILE_OR_DIR...]",
        help="check files without executing them",
        description="Check Python files and folders. Nothing of them is imported or executed.",
        epilog=_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = (
        "what to check: scripts, notebooks, recorded tapes, folders (- is standard input; default: this folder); "
        "with --fix or --diff also FILE:LINE, to fix what is found on that line alone"
    )
    check.add_argument("paths", nargs="*", default=["."], metavar="FILE_OR_DIR", help=what)
    _add_common(check)
    check.add_argument("--watch", action="store_true", help="check again whenever a file changes, until Ctrl+C")
    check.add_argument("--no-cache", dest="cache", action="store_false", help="neither use nor keep results on disk")
    check.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: as many as cores)")
    edits = check.add_argument_group("fixes and comments")
    edits.add_argument("--fix", action="store_true", help="make the safe fixes, one after the other, each verified")
    edits.add_argument(
        "--alternative", type=_positive, metavar="N", help="with FILE:LINE, make the Nth fix of what is found there"
    )
    edits.add_argument("--ask", action="store_true", help="show each finding and ask which of its fixes to make")
    edits.add_argument(
        "--verify",
        action="store_true",
        help="with --fix, execute the program before and after, and write no file whose program then fails",
    )
    edits.add_argument("--unsafe-fixes", action="store_true", help="make those that change what is learned, too")
    edits.add_argument("--diff", action="store_true", help="print what --fix would change as a patch, write nothing")
    edits.add_argument("--add-ignore", action="store_true", help="add a comment that switches off each finding")
    known = check.add_argument_group("baselines")
    known.add_argument("--baseline", metavar="FILE", help="leave out the findings that FILE has")
    known.add_argument("--write-baseline", metavar="FILE", help="write the findings of now to FILE")
    files = check.add_argument_group("files", "PATTERNS are comma-separated patterns as in .gitignore files.")
    files.add_argument(
        "--exclude", action="extend", type=_names, metavar="PATTERNS",
        help="leave these out of folders, in the place of the default",
    )  # fmt: skip
    files.add_argument(
        "--extend-exclude", action="extend", type=_names, default=[], metavar="PATTERNS",
        help="leave these out of folders, too",
    )  # fmt: skip
    files.add_argument(
        "--respect-gitignore", action=argparse.BooleanOptionalAction, default=None,
        help="leave out what .gitignore files name (default: yes)",
    )  # fmt: skip
    files.add_argument(
        "--force-exclude", action=argparse.BooleanOptionalAction, default=None,
        help="leave out excluded files even where they are named (default: no)",
    )  # fmt: skip
    files.add_argument("--show-files", action="store_true", help="list the files that would be checked")
    files.add_argument("--show-settings", action="store_true", help="print the settings of the first file as JSON")
    files.add_argument("--shard", type=_shard, metavar="I/N", help="check every Nth file, beginning with the Ith")
    files.add_argument(
        "--stdin-filename", default="-", metavar="NAME", help="the name that the report gives standard input"
    )

    run = verbs.add_parser(
        "run",
        usage="tapecheck run [OPTIONS] SCRIPT [ARGS...]\n       tapecheck run [OPTIONS] -m MODULE [ARGS...]",
        help="execute a script under the recorder and confirm or refute its findings",
        description="Execute a script under the recorder, with all its effects, as `python SCRIPT` would.",
        epilog=_RUN_EXIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument(
        "script", nargs="?", metavar="SCRIPT",
        help="the script to execute (default: what `run` under [tool.tapecheck] in pyproject.toml says)",
    )  # fmt: skip
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    run.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
        help="execute a module as `python -m` does; what follows are its arguments",
    )  # fmt: skip
    _add_common(run, (*FORMATS, "html"), fail_on="hint")
    run.add_argument(
        "--python",
        metavar="P",
        help="an interpreter with torch (default: the one of Tapecheck, or that of the project where it has none)",
    )
    starter = run.add_mutually_exclusive_group()
    starter.add_argument(
        "--launcher", type=_command, default=[], metavar="COMMAND",
        help="start the script by this command, which is put before it: \"torchrun --nproc-per-node 2\"",
    )  # fmt: skip
    starter.add_argument(
        "--ranks", dest="launcher", type=_ranks, default=argparse.SUPPRESS, metavar="N",
        help="start the script by torchrun in N processes on this machine",
    )  # fmt: skip
    run.add_argument("--timeout", type=_limit, metavar="S", help="stop the script after S seconds (default: 0, never)")
    run.add_argument(
        "--max-iterations", type=_positive, metavar="N", help="stop after N iterations of the training loop"
    )
    run.add_argument(
        "--grace", type=_seconds, default=10.0, metavar="S",
        help="let the script end by itself for S seconds after Ctrl+C or SIGTERM (default: 10)",
    )  # fmt: skip
    run.add_argument("--stdin", action="store_true", help="let the script read standard input")
    run.add_argument("--max-backward", type=_positive, metavar="N", help="stop after N backward calls")
    run.add_argument(
        "--confirm", action="append", default=[], metavar="FILE",
        help="a file of the project whose findings are to be confirmed, whichever program runs it; may be repeated",
    )  # fmt: skip
    run.add_argument("--tape", metavar="FILE", help="keep the recorded tape as JSON lines")
    run.add_argument("--html", metavar="FILE", help="write the report as one HTML page, too")
    run.add_argument(
        "--verify-fix", action="store_true",
        help="run the program again as it is and as mended, with the same seed, and say what changed",
    )  # fmt: skip
    run.set_defaults(takes_value={name: action.nargs != 0 for action in run._actions for name in action.option_strings})

    diff = verbs.add_parser(
        "diff", help="compare two recorded tapes",
        description="Compare two recorded tapes: how the runs ended, what stayed alive, what only one of them shows. "
        "The exit status is 1 where findings or exceptions differ.",
    )  # fmt: skip
    diff.add_argument("a", metavar="A.tape", help="a tape that `run --tape` kept")
    diff.add_argument("b", metavar="B.tape", help="another one")
    diff.add_argument("--output-format", choices=("text", "json", "html"), default="text", help="(default: text)")
    diff.add_argument("--html", metavar="FILE", help="write the comparison as one HTML page, too")

    graph = verbs.add_parser(
        "graph", help="a picture of the graphs that a program's backward calls walk",
        description="Draw the graphs that backward calls walk, by source line: what each frees, keeps, walks again. "
        "Nothing is executed; a recorded tape is drawn as it was recorded.",
    )  # fmt: skip
    graph.add_argument("file", metavar="FILE", help="a script, a notebook or a recorded tape")
    graph.add_argument("--output-format", choices=("svg", "html"), default="svg", help="(default: svg)")
    graph.add_argument("-o", "--output-file", metavar="FILE", help="write the picture to FILE")
    graph.add_argument("--line", type=_positive, metavar="N", help="draw the backward calls on line N only")

    debug = verbs.add_parser("debug", help="why something is reported, or is not: for bug reports")
    subjects = debug.add_subparsers(dest="what", metavar="WHAT", required=True)
    traced = subjects.add_parser(
        "trace", help="the ways through a program that were tried, and what each showed",
        description="Print every way through a program that was tried: where it started, which undecided conditions it "
        "came to and what hangs on them, the backward calls it ran and what the rules make of it alone.",
    )  # fmt: skip
    traced.add_argument("file", metavar="FILE", help="a script or a notebook")
    traced.add_argument("--line", type=_positive, metavar="N", help="only ways in which something happens on line N")
    reported = subjects.add_parser(
        "report", help="a small anonymous program that shows an internal error",
        description="Print a small program that shows the same internal error as a file: statements that the error "
        "does not need are left out, the program's own names and texts are replaced. Nothing is executed or sent.",
    )  # fmt: skip
    reported.add_argument("file", metavar="FILE", help="a script or a notebook")

    for name, said in (("rule", "the page of a rule, or all of them"), ("explain", "the same as `rule`")):
        rule = verbs.add_parser(name, help=said, description="Print the page of a rule, or the list of all rules.")
        rule.add_argument("rule", nargs="?", metavar="RULE", help="a code or a name (default: list all rules)")
        rule.add_argument("--all", action="store_true", help="print the pages of all rules")
        rule.add_argument(
            "--output-format", choices=("text", "json", "markdown"), default="text", help="(default: text)"
        )

    verbs.add_parser("serve", help="the language server on standard input and output")

    verbs.add_parser(
        "mcp", help="a Model Context Protocol server for coding agents, on standard input and output",
        description="Serve the tools check, explain, fix, run and graph to a coding agent (needs the package mcp).",
    )  # fmt: skip

    version = verbs.add_parser("version", help="the version, and which torch its facts were measured on")
    version.add_argument("--output-format", choices=("text", "json"), default="text", help="(default: text)")

    completion = verbs.add_parser(
        "completion", help="a script that completes commands and options in a shell",
        description="Print a script that completes commands and options, for a shell to read at its start.",
    )  # fmt: skip
    completion.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return parser


def _add_common(
    parser: argparse.ArgumentParser, formats: tuple[str, ...] = FORMATS, fail_on: str = DEFAULT_LEVEL
) -> None:
    report = parser.add_argument_group("report")
    report.add_argument(
        "--output-format", choices=formats, default="text", metavar="FORMAT",
        help=f"{', '.join(formats[:-1])} or {formats[-1]} (default: text)",
    )  # fmt: skip
    report.add_argument("-o", "--output-file", metavar="FILE", help="write the report to FILE")
    report.add_argument("--statistics", action="store_true", help="count findings by rule instead of listing them")
    report.add_argument("-q", "--quiet", action="store_true", help="print findings and errors only, no summary")
    colours = ("auto", "always", "never")
    report.add_argument(
        "--color", choices=colours, default="auto", metavar="WHEN", help="auto, always or never (default: auto)"
    )
    report.add_argument(
        "--fail-on", choices=LEVELS, metavar="LEVEL",
        help=f"the least severity that makes the exit status 1: {', '.join(LEVELS)} (default: {fail_on})",
    )  # fmt: skip
    report.add_argument("-e", "--exit-zero", action="store_true", help="exit with 0 whatever is found")
    rules = parser.add_argument_group("rules and configuration")
    rules.add_argument(
        "--select", action="extend", type=_names, metavar="RULES",
        help="comma-separated rule codes, prefixes or names to report (default: all)",
    )  # fmt: skip
    rules.add_argument(
        "--extend-select", action="extend", type=_names, default=[], metavar="RULES", help="rules to report, too"
    )
    rules.add_argument(
        "--ignore", "--extend-ignore", action="extend", type=_names, default=[], metavar="RULES",
        help="rules not to report",
    )  # fmt: skip
    rules.add_argument(
        "--per-file-ignores", action="extend", type=_by_pattern, metavar="PATTERN:RULE,...",
        help="rules not to report in some files, in the place of the project's",
    )  # fmt: skip
    rules.add_argument(
        "--extend-per-file-ignores", action="extend", type=_by_pattern, default=[], metavar="PATTERN:RULE,...",
        help="rules not to report in some files, beside the project's",
    )  # fmt: skip
    rules.add_argument("--no-fixes", dest="fixes", action="store_false", help="do not work out fixes")
    rules.add_argument("--config", metavar="FILE", help="use this configuration for every file")
    rules.add_argument("--isolated", action="store_true", help="use no configuration file")
    rules.add_argument(
        "--effort", type=_effort, default=1, metavar="N",
        help="allow N times the default analysis work per file, where a work limit was reached (default: 1)",
    )  # fmt: skip


def _effort(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= MOST_EFFORT:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {MOST_EFFORT}, got {text!r}")
    return number


def _names(text: str) -> list[str]:
    return [rule_name(name) for part in text.split(",") if (name := part.strip())]


def _by_pattern(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return patterns with their rules, as Ruff reads them: `tests/*:TAPE1,a.py:TAPE301`."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for part in filter(None, map(str.strip, text.split(","))):
        pattern, colon, rule = part.rpartition(":")
        if not colon or not pattern.strip() or not rule.strip():
            raise argparse.ArgumentTypeError(f"expected PATTERN:RULE, such as tests/*:TAPE1, got {part!r}")
        if not valid_pattern(pattern.strip()):
            raise argparse.ArgumentTypeError(f"{pattern.strip()!r} is not a valid pattern")
        found.append((pattern.strip(), (rule_name(rule.strip()),)))
    return found


def _command(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def _ranks(text: str) -> list[str]:
    """Return the command that starts a script in a number of processes on this machine."""
    return ["python", "-m", "torch.distributed.run", "--nproc-per-node", str(_positive(text)), *ANYWHERE]


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}") from None
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return number


def _shard(text: str) -> tuple[int, int]:
    first, slash, second = text.partition("/")
    if slash and first.isdecimal() and second.isdecimal() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise argparse.ArgumentTypeError(f"expected I/N with 1 <= I <= N, such as 1/4, got {text!r}")


def _limit(text: str) -> float | None:
    return None if text.strip("0.") == "" and "0" in text else _seconds(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}") from None
    # Written so that "nan", of which no comparison holds, is refused too.
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return seconds
