"""The base of all rules. A rule is a folder of its own: docs/architecture.md says what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import ClassVar

from tapecheck.rules.finding import Finding, Severity, page_url
from tapecheck.rules.page import Page, parsed
from tapecheck.rules.reading import Reading
from tapecheck.tape import Assumed, AssumptionKind


class Rule:
    """A rule reads the tapes of one program and reports what is wrong with it.

    Every tape is one path through the program: a dry run makes several where it cannot decide a condition,
    a recorded run makes one.
    """

    code: ClassVar[str]
    name: ClassVar[str]
    severity: ClassVar[Severity]
    severities: ClassVar[tuple[Severity, ...]] = ()
    """The severities of its findings, highest first, where they differ."""
    summary: ClassVar[str]
    raises: ClassVar[bool] = False
    """Whether PyTorch raises where the rule is right."""
    stands_alone: ClassVar[bool] = False
    """Whether another way that only leaves out what one did, or computes it otherwise, says nothing of its findings."""
    of_absence: ClassVar[bool] = False
    """Whether it reports that a graph, a gradient or a use is missing: code that is not visible may supply it."""
    lasting: ClassVar[bool] = False
    """Whether it reports that something stays as it is, which code that comes later may end."""
    needless: ClassVar[bool] = False
    """Whether it reports that something is not needed: where options have other values it may be."""
    recorded: ClassVar[bool] = False
    """Whether what it reports is so only while autograd records, and no backward has to have shown that it does."""
    settled: ClassVar[bool] = False
    """Whether what it reports to be missing is so once the lines of a finding have run, whatever runs later."""
    over: ClassVar[bool] = False
    """Whether what it reports to be missing would have to come before the last line of a finding has run."""
    needs: ClassVar[frozenset[AssumptionKind]] = frozenset()
    """What has to be visible for it to be reported at all: that is where what is missing usually is."""

    docs: ClassVar[str] = ""
    """The address of its page, where that is not on Tapecheck's site."""

    def judge(self, readings: Sequence[Reading]) -> list[Finding]:
        """Return the findings of this rule over all paths through one program; those at one place are merged later."""
        raise NotImplementedError

    def spares(self, finding: Finding, reading: Reading, event: Assumed, position: int) -> bool:
        """Return whether hidden code hardly is what a finding lacks, by an effect of it or by a method that does not do
        what its name says: the finding is a possible one then.
        """
        return False

    def only_last(self, finding: Finding, reading: Reading) -> set[int]:
        """Return the nodes of what is wrong only because a loop ends there; none where more iterations mend nothing."""
        return set()

    @property
    def unfinished(self) -> bool:
        """Return whether what comes later, or on another way, may be what it reports to be missing."""
        return (self.of_absence and not self.settled) or self.lasting

    @property
    def url(self) -> str:
        """Return the address of the rule's page."""
        return self.docs or page_url(self.code, self.name)

    @property
    def folder(self) -> str:
        """Return the dotted name of the package that holds the rule's files."""
        return type(self).__module__.rpartition(".")[0]

    @property
    def page(self) -> Page:
        """Return the rule's page, read from `page.md` in its folder."""
        return _page(self.folder, self.code)

    @property
    def markdown(self) -> str:
        """Return the page as it is written, without a head."""
        return _markdown(self.folder)


@cache
def _markdown(folder: str) -> str:
    data = get_data(folder, "page.md")
    if data is None:
        raise FileNotFoundError(f"{folder} has no page.md")
    return data.decode()


@cache
def _page(folder: str, code: str) -> Page:
    return parsed(_markdown(folder), code)


def discovered(package: str, paths: Sequence[str]) -> list[Rule]:
    """Return a rule for each folder of a package: the one class of its `rule.py` that derives from Rule."""
    return [
        defined()
        for module in iter_modules(paths)
        if module.ispkg
        for defined in vars(import_module(f"{package}.{module.name}.rule")).values()
        if isinstance(defined, type) and issubclass(defined, Rule) and defined is not Rule
        if defined.__module__ == f"{package}.{module.name}.rule"
    ]
