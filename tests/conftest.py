"""What holds for every test."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from tapecheck.interpret.explore import faults
from tests.record.harness import PYTHON
from tests.record.warm import Warm, available

# How long an example takes is for the benchmarks: on a busy machine any of them may be late.
settings.register_profile("tapecheck", deadline=None, derandomize=True)
settings.register_profile("chance", deadline=None)
settings.load_profile("tapecheck")


LONGEST = (
    "record/test_verdicts", "cli/test_run", "record/test_programs", "lsp/test_real", "lsp/test_protocol",
    "differential/test_differential", "record/test_run", "cli/test_hostile", "test_cases", "record/test_ranks",
    "cli/test_check", "soak/test_traps", "record/test_retain", "record/test_plugin", "cli/test_output",
    "record/test_passed", "record/test_hidden",
)  # fmt: skip
"""The files that take most CPU, in this order: a long one that began last would be waited for."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first where files are given to several processes (`--dist loadfile`)."""
    if not hasattr(config, "workerinput"):
        return
    here = Path(__file__).parent
    place = {name: number for number, name in enumerate(LONGEST)}

    def rank(item: pytest.Item) -> int:
        name = item.path.relative_to(here).with_suffix("").as_posix() if item.path.is_relative_to(here) else ""
        return place.get(name, len(place))

    items.sort(key=rank)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one process more than there are cores: some tests wait for what they have started, for up to a minute."""
    return len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "write what is found into the programs, as their expectations, in the place of comparing it"
    parser.addoption("--update-expectations", action="store_true", help=text)


@pytest.fixture(autouse=True)
def _internal_errors_fail(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error that costs users one start costs the test: only tests of just that let it pass."""
    if request.node.get_closest_marker("internal_errors") is None:
        monkeypatch.setattr(faults, "note", _raise)


def _raise(error: Exception, *_: object) -> NoReturn:
    raise AssertionError("an internal error of the analysis") from error


@pytest.fixture
def update_expectations(request: pytest.FixtureRequest) -> bool:
    """Whether programs get what is found as their expectations."""
    return bool(request.config.getoption("--update-expectations"))


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands that tests start keep their results in a folder of this run, not in the user's."""
    before = os.environ.get("TAPECHECK_CACHE_DIR")
    folder: Path = tmp_path_factory.mktemp("cache")
    os.environ["TAPECHECK_CACHE_DIR"] = str(folder)
    yield
    if before is None:
        del os.environ["TAPECHECK_CACHE_DIR"]
    else:
        os.environ["TAPECHECK_CACHE_DIR"] = before


@pytest.fixture(scope="session", autouse=True)
def _interrupts_count() -> None:
    """A shell starts what it puts into the background with Ctrl+C ignored, nohup with SIGHUP: children inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An interpreter that has torch loaded, which takes longer than most of the programs."""
    if not available() or sys.executable != PYTHON:
        yield PYTHON
        return
    with Warm(PYTHON, str(tmp_path_factory.mktemp("warm"))) as running:
        yield running.python
