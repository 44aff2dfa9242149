"""What the README says of rules and figures is so."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tapecheck.rules import ALL
from tests.docs.pages import ROOT
from tools.docs import tables

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_rules_is_current() -> None:
    for path in tables.TABLES:
        text = path.read_text(encoding="utf-8")
        assert tables.current(text, path) == text, "run python -m tools.docs.tables"


def test_what_raises_nothing_comes_first() -> None:
    rows = re.findall(r"^\| \[(TAPE\d+)\].*\| (says nothing|raises, later) \|$", README, re.MULTILINE)
    assert {code for code, _ in rows} == {rule.code for rule in ALL}
    raises = [told == "raises, later" for _, told in rows]
    assert raises == sorted(raises) and not raises[0] and raises[-1]


def test_figures_are_no_more_than_what_there_is() -> None:
    truth = [json.loads(path.read_text()) for path in (ROOT / "tests" / "cases" / "programs").glob("*.json")]
    mistakes = sum(len(one["findings"]) for one in truth)
    # Each program with a mistake has a mended twin.
    without = len(truth)
    said = re.search(r"More than (\d+) mistakes in .*?more than (\d+) programs without", README, re.DOTALL)
    assert said is not None
    assert mistakes * 0.7 < int(said[1]) < mistakes
    assert without * 0.7 < int(said[2]) < without


def test_figures_of_other_pages_are_theirs() -> None:
    """The survey's table has errors, wrong ones, warnings, wrong ones, and a row after the repairs."""
    surveys = (ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8")
    survey = surveys.partition("\n## The fourth survey")[2].partition("\n## ")[0]
    said = re.search(
        r"In (\d+) public repositories .*?\((\S+) lines of code in files that train\) it reported (\d+)\s"
        r".*?: (\d+) were right, (\d+) wrong; after repairs (\d+) of (\d+) were\."
        r"\s+Of (\d+) places .*?, (\d+) % were found",
        README,
        re.DOTALL,
    )
    assert said is not None
    repositories, lines, found, right, wrong, still, left, places, share = said.groups()
    assert f"{repositories} repositories that no earlier survey had looked at" in survey and f"{lines} of\n" in survey
    assert f"of {places}, {share} %**" in survey
    rows = re.findall(
        r"^\| (as found|after the repairs below) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", survey, re.MULTILINE
    )
    # One error that calls itself possible is wrong, too, as the text below the table says.
    (errors, bad, warnings, worse), after = ([int(number) for number in row[1:]] for row in rows)
    assert (errors + warnings, bad + worse + 1) == (int(found), int(wrong)) and int(right) + int(wrong) == int(found)
    assert (after[0] + after[2], after[1] + after[3] + 1) == (int(left), int(still))


def test_what_a_recorded_run_costs_is_said_alike() -> None:
    """The README and the FAQ give the same range, and its end is a figure of the page that has them all."""
    faq, page = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("faq.md", "recorded-run.md"))
    cost = r"\[1\.0 to ([\d.]+) times\]\(\S*recorded-run\.md#what-it-costs\) the CPU time.*?, some up to ([\d.]+) times"
    said = {re.search(cost, " ".join(text.split())) for text in (README, faq)}
    assert None not in said
    ((_, most),) = {found.groups() for found in said if found is not None}
    section = page.partition("## What it costs\n")[2].partition("\n## ")[0]
    assert f"{most} times" in section


def test_where_the_readme_is_shown_alone_its_links_lead_to_the_site() -> None:
    """The build rewrites them as pyproject.toml says: each leads to a page or a picture that the site has."""
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["metadata"]["hooks"]
    text = README
    for one in hook["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 20
    for link in links:
        assert link.startswith("https://"), f"{link} leads nowhere on PyPI"
        path, _, anchor = link.removeprefix("https://tapecheck.readthedocs.io/en/latest/").partition("#")
        if path.startswith("https://"):
            continue
        name = path.rstrip("/")
        outside = ROOT / f"{name.upper()}.md"
        pages = [ROOT / "docs" / path, ROOT / "docs" / f"{name}.md", ROOT / "docs" / name / "index.md", outside]
        found = next((page for page in pages if page.is_file()), None)
        assert found is not None, link
        if anchor:
            titles = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, link
