"""The user's settings, from whatever shape an editor sends them in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tapecheck.source.selection import Selection, severity_of
from tapecheck.source.suppress import rule_name

if TYPE_CHECKING:
    from tapecheck.rules.finding import Severity

SECTION = "tapecheck"
"""Under which name editors keep the settings; diagnostics have it as their source."""

RUN_TIMEOUT = 300.0
RUN_ITERATIONS = 20
_SEVERITIES = ("error", "warning", "info", "hint")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the `tapecheck` section of an editor's settings says; `run_timeout` is in seconds.

    `select` None means all rules. `interpreter` is the command for recorded runs, empty for the Python that
    runs the server. `on_save` analyses a file when it is opened and saved, not while it is typed. `run_launcher` is
    the command that starts the program, such as torchrun with its options; `run_program` the script (or "-m module")
    that is run in the place of a file which other programs import.
    """

    enable: bool = True
    whole_workspace: bool = False
    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)
    interpreter: tuple[str, ...] = ()
    lens: bool = True
    lens_loops: bool = True
    lens_backwards: bool = True
    inlay_hints: bool = False
    on_save: bool = False
    run_arguments: tuple[str, ...] = ()
    run_cwd: str = ""
    run_env: Mapping[str, str] = field(default_factory=dict)
    run_launcher: tuple[str, ...] = ()
    run_program: str = ""
    run_timeout: float = RUN_TIMEOUT
    run_iterations: int = RUN_ITERATIONS

    @property
    def rules(self) -> Selection:
        """What the editor says of rules, beside the project's configuration."""
        return Selection(self.select, self.ignore)

    def severity_of(self, code: str, name: str) -> Severity | None:
        """Return the severity that the editor gives a rule; None where it keeps that of the project."""
        return cast("Severity | None", severity_of(self.severity.items(), code, name))


def read_settings(value: object) -> tuple[Settings, list[str]]:
    """Return settings out of an editor's JSON, nested ("run": {"timeout": 5}) or dotted ("run.timeout": 5).

    What has the wrong shape keeps its default, and a name that no rule has is left out; the second part of the result
    says so, one line each.
    """
    flat = _flatten(value)
    problems: list[str] = []

    def words(key: str) -> tuple[str, ...]:
        given = flat.get(key)
        if given is None:
            return ()
        if isinstance(given, str):
            return (given,) if given else ()
        if isinstance(given, (list, tuple)) and all(isinstance(item, str) for item in given):
            return tuple(given)
        problems.append(f"tapecheck.{key} must be a list of strings, not {given!r}")
        return ()

    def flag(key: str, default: bool) -> bool:
        given = flat.get(key, default)
        if isinstance(given, bool):
            return given
        if given is not None:
            problems.append(f"tapecheck.{key} must be true or false, not {given!r}")
        return default

    def positive(key: str, default: float) -> float:
        given = flat.get(key, default)
        if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < math.inf:
            return given
        if given is not None:
            problems.append(f"tapecheck.{key} must be a positive number, not {given!r}")
        return default

    def text(key: str) -> str:
        given = flat.get(key)
        if given is not None and not isinstance(given, str):
            problems.append(f"tapecheck.{key} must be a string, not {given!r}")
        return given if isinstance(given, str) else ""

    def texts(key: str) -> dict[str, str]:
        given = flat.get(key)
        if isinstance(given, Mapping) and all(isinstance(value, str) for value in given.values()):
            return {str(name): value for name, value in given.items()}
        if given is not None:
            problems.append(f"tapecheck.{key} must map names to strings, not {given!r}")
        return {}

    def one_of(key: str, *allowed: str) -> str:
        given = flat.get(key)
        if given is None or given in allowed:
            return given or allowed[0]
        problems.append(f"tapecheck.{key} must be one of {', '.join(allowed)}, not {given!r}")
        return allowed[0]

    severity: dict[str, Severity] = {}
    chosen = flat.get("severity")
    if isinstance(chosen, Mapping):
        for code, level in chosen.items():
            if level in _SEVERITIES:
                severity[rule_name(str(code))] = cast("Severity", level)
            else:
                problems.append(f"tapecheck.severity: expected one of {', '.join(_SEVERITIES)}, got {level!r}")
    elif chosen is not None:
        problems.append(f"tapecheck.severity must map rule codes to severities, not {chosen!r}")

    def known(key: str, names: Sequence[str]) -> tuple[str, ...]:
        wrong = _unknown(names)
        problems.extend(f"tapecheck.{key}: {problem}" for problem in wrong.values())
        return tuple(name for name in names if name not in wrong)

    select, ignore = (known(key, tuple(map(rule_name, words(key)))) for key in ("select", "ignore"))
    severity = {code: severity[code] for code in known("severity", tuple(severity))}
    settings = Settings(
        enable=flag("enable", True),
        whole_workspace=one_of("diagnosticMode", "openFilesOnly", "workspace") == "workspace",
        select=select or None,
        ignore=ignore,
        severity=severity,
        interpreter=words("interpreter"),
        lens=flag("lens.enable", True),
        lens_loops=flag("lens.loops", True),
        lens_backwards=flag("lens.backwards", True),
        inlay_hints=flag("inlayHints.enable", False),
        on_save=one_of("lint.run", "onType", "onSave") == "onSave",
        run_arguments=words("run.arguments"),
        run_cwd=text("run.cwd"),
        run_env=texts("run.env"),
        run_launcher=words("run.launcher"),
        run_program=text("run.program"),
        run_timeout=float(positive("run.timeout", RUN_TIMEOUT)),
        run_iterations=int(positive("run.maxIterations", RUN_ITERATIONS)),
    )
    return settings, problems


def _unknown(names: Sequence[str]) -> dict[str, str]:
    """Return what is to be said of names that are no rule's code, beginning of one or name, nor that of a note."""
    if not names:
        # Who sets nothing about rules need not wait for them when the server starts.
        return {}
    from tapecheck.check import INCOMPLETE, NOTES, unknown_rule

    notes = (*NOTES, INCOMPLETE)
    return {name: wrong for name in names if (wrong := unknown_rule(name, notes)) is not None}


def _flatten(value: object) -> dict[str, object]:
    flat: dict[str, object] = {}
    if not isinstance(value, Mapping):
        return flat
    for key, item in value.items():
        if isinstance(item, Mapping) and key in ("run", "lens", "inlayHints", "lint"):
            for inner, inner_item in item.items():
                flat[f"{key}.{inner}"] = inner_item
        else:
            flat[str(key)] = item
    return flat
