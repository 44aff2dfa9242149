"""The formats for services, held against the schemas of those who read them."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tapecheck.fixes import Edit, Fix
from tapecheck.report import (
    Checked,
    Problem,
    Sources,
    concise,
    formats,
    github,
    gitlab,
    junit,
    rdjson,
    sarif,
    statistics,
)
from tapecheck.report.checked import Incomplete
from tapecheck.report.places import Places
from tapecheck.rules import ALL
from tapecheck.rules.finding import Evidence, Label
from tapecheck.tape import Span
from tests.report.build import GAN, backward_twice, confirmed, detach, once, span

SCHEMAS = Path(__file__).parent / "schemas"


def sources(text: str = GAN) -> Sources:
    return Sources({"gan.py": text.split("\n")})


def some() -> list[Checked]:
    hint = backward_twice(code="TAPE201", name="graph-kept-across-iterations", severity="hint", labels=())
    info = backward_twice(code="TAPE301", name="needless-retain-graph", severity="info", span=span(8, 5, 22))
    return [
        Checked("gan.py", [backward_twice(), info, hint], [[detach(), once()], [], []]),
        Checked("fine.py"),
        Checked("bad.py", problems=[Problem("invalid-syntax", "invalid syntax", 3, 5)]),
        Checked("no/such äé.py", problems=[Problem("io-error", "No such file or directory")]),
    ]


def log(files: list[Checked], **options: Any) -> dict[str, Any]:
    """Return the only run of a SARIF log that keeps to the schema."""
    jsonschema = pytest.importorskip("jsonschema")
    written = json.loads(sarif.render(files, options.pop("sources", sources()), **options))
    schema = json.loads((SCHEMAS / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.validate(written, schema, cls=jsonschema.Draft4Validator)
    (run,) = written["runs"]
    return dict(run)


def test_sarif_keeps_to_the_schema() -> None:
    run = log(some())
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in ALL]
    assert [rules[row["ruleIndex"]]["id"] for row in run["results"]] == [row["ruleId"] for row in run["results"]]
    assert [row["level"] for row in run["results"]] == ["error", "note", "note"]
    assert run["columnKind"] == "unicodeCodePoints"
    first = run["results"][0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"] == {"uri": "gan.py", "uriBaseId": "%SRCROOT%"}
    assert first["region"] == {"startLine": 12, "startColumn": 5, "endLine": 12, "endColumn": 22}
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    told = [(row["descriptor"]["id"], row["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
            for row in invocation["toolExecutionNotifications"]]  # fmt: skip
    assert told == [("invalid-syntax", "bad.py"), ("io-error", "no/such%20%C3%A4%C3%A9.py")]


def test_sarif_tells_the_story_as_a_code_flow_that_ends_with_the_finding() -> None:
    finding = backward_twice(
        labels=(
            Label(span(8, 5, 22), "and freed here", "freed"),
            Label(span(11, 5, 11), "called from here", "called"),
            Label(span(6, 13, 25), "the graph was built here", "built"),
        )
    )
    (row,) = log([Checked("gan.py", [finding])])["results"]
    steps = row["codeFlows"][0]["threadFlows"][0]["locations"]
    lines = [step["location"]["physicalLocation"]["region"]["startLine"] for step in steps]
    assert lines == [6, 8, 11, 12]
    assert [step["kinds"] for step in steps] == [["built"], ["freed"], ["called"], ["used"]]
    assert [step["importance"] for step in steps] == ["essential", "essential", "important", "essential"]
    # The message links to the related locations by their ids.
    assert {related["id"] for related in row["relatedLocations"]} == {1, 2, 3}
    assert "[line 6](3): the graph was built here" in row["message"]["text"]


def test_sarif_has_all_fixes_with_their_edits() -> None:
    (row, *_) = log(some())["results"]
    preferred, other = row["fixes"]
    assert preferred["artifactChanges"] == [
        {
            "artifactLocation": {"uri": "gan.py", "uriBaseId": "%SRCROOT%"},
            "replacements": [
                {
                    "deletedRegion": {"startLine": 6, "startColumn": 24, "endLine": 6, "endColumn": 24},
                    "insertedContent": {"text": ".detach()"},
                }
            ],
        }
    ]
    assert "unsafe" in preferred["description"]["text"]
    assert len(other["artifactChanges"][0]["replacements"]) == 2


def prints(text: str, *lines: int) -> list[str]:
    findings = [backward_twice(span=span(line, 5, 22), labels=()) for line in lines]
    run = log([Checked("gan.py", findings)], sources=sources(text))
    return [row["partialFingerprints"]["tapecheck/v1"] for row in run["results"]]


def test_fingerprints_survive_moved_and_indented_lines_and_tell_findings_apart() -> None:
    before = prints(GAN, 8, 12)
    assert len(set(before)) == 2
    moved = "# a line\n# more\n" + GAN.replace("    ", "  ")
    assert prints(moved, 10, 14) == before
    # The same text twice in one place: told apart by their order.
    doubled = GAN.replace("    g_loss.backward()\n", "    g_loss.backward()\n" * 2)
    first, second = prints(doubled, 12, 13)
    assert first == before[1] and second not in before


def test_fingerprints_know_the_function_around_the_line() -> None:
    inside = "class A:\n    def f(self):\n        for x in y:\n            l.backward()\n\n    def g(self):\n"
    text = inside + "        for x in y:\n            l.backward()\n"
    one, two = prints(text, 4, 8)
    assert one != two
    assert prints(text.replace("def f(self):", "def f(self, a=1):\n        pass"), 5, 9) == [one, two]
    assert prints(text.replace("def f", "def h"), 4, 8)[1] == two


def test_sarif_of_an_internal_error_says_that_the_tool_failed() -> None:
    run = log([Checked("a.py", problems=[Problem("internal-error", "a bug")])])
    assert run["invocations"][0]["executionSuccessful"] is False


def test_brackets_in_messages_are_no_links() -> None:
    (row,) = log([Checked("gan.py", [backward_twice(message="`f[0](x)` and `g[1]`", labels=())])])["results"]
    assert row["message"]["text"].startswith(r"`f\[0\](x)` and `g[1]`")


def notebook(tmp_path: Path, **style: Any) -> Path:
    path = tmp_path / "train.ipynb"
    cells = [
        {"cell_type": "markdown", "metadata": {"source": 1}, "source": ["# title\n", "words"]},
        {"cell_type": "code", "metadata": {}, "outputs": [{"source": "x = 1"}], "source": ["a = 1\n", "b = 2\n", "c"]},
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": "d = 1\ne = 2"},
    ]
    path.write_text(json.dumps({"cells": cells, "nbformat": 4}, **style))
    return path


@pytest.mark.parametrize("indent", [1, 2, None])
def test_lines_of_cells_are_those_of_the_notebook_s_file(tmp_path: Path, indent: int | None) -> None:
    path = notebook(tmp_path, indent=indent)
    lines = path.read_text().split("\n")
    places = Places(tmp_path)
    for cell, row, text in ((2, 1, '"a = 1\\n"'), (2, 2, '"b = 2\\n"'), (2, 3, '"c"'), (3, 2, "d = 1")):
        place = places.of(Span(f"{path}:cell {cell}", row, 1, row, 2))
        assert (place.path, place.cell, place.column) == ("train.ipynb", cell, None)
        assert text in lines[place.line - 1]


def test_a_notebook_s_findings_name_their_cell_and_carry_no_edits(tmp_path: Path) -> None:
    path = notebook(tmp_path, indent=1)
    name = f"{path}:cell 2"
    finding = backward_twice(span=Span(name, 2, 1, 2, 4), labels=())
    fix = Fix("Do", "safe", (Edit(Span(name, 1, 1, 1, 1), "x"),), "")
    file = Checked(str(path), [finding], [[fix]], texts={name: ["a = 1", "b = 2", "c"]})
    (row,) = log([file], places=Places(tmp_path))["results"]
    assert row["locations"][0]["logicalLocations"][0]["name"] == "cell 2"
    region = row["locations"][0]["physicalLocation"]["region"]
    assert "b = 2" in path.read_text().split("\n")[region["startLine"] - 1]
    assert "fixes" not in row and "startColumn" not in region


def test_paths_elsewhere_are_absolute(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "other" / "a b.py"
    inside.mkdir()
    places = Places(inside)
    assert places.uri(str(outside)) == outside.as_uri()
    assert places.path(str(outside)) == outside.as_posix()
    assert places.uri(str(inside / "x#1.py")) == "x%231.py"
    assert places.path(str(inside / ".." / "other" / "a b.py")) == outside.as_posix()


def test_github_s_commands_are_escaped() -> None:
    odd = backward_twice(message="100% wrong\nreally", span=span(12, 5, 22, file="a,b:c.py"), labels=())
    (line,) = github.render([Checked("a,b:c.py", [odd])]).splitlines()
    head, _, data = line.removeprefix("::error ").partition("::")
    assert head == ("title=Tapecheck (TAPE101 backward-twice),file=a%2Cb%3Ac.py,line=12,endLine=12,col=5,endColumn=22")
    assert data.startswith("100%25 wrong%0Areally%0Ahelp: ")


def test_github_s_levels_and_columns() -> None:
    wide = backward_twice(severity="warning", span=span(8, 5, 3, end_line=9))
    files = [*some(), Checked("gan.py", [wide])]
    lines = github.render(files).splitlines()
    levels = [line.split(" ")[0].removeprefix("::") for line in lines]
    assert levels == ["error", "notice", "notice", "error", "error", "warning"]
    assert "line=8,endLine=9::" in lines[-1]
    assert "%0Aline 6: the graph was built here%0Aline 8: and freed here" in lines[0]


def test_gitlab_keeps_to_the_schema_and_its_fingerprints_are_its_own() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    rows = json.loads(gitlab.render(some(), sources()))
    schema = json.loads((SCHEMAS / "gitlab-codeclimate.json").read_text())
    for row in rows:
        jsonschema.validate(row, schema)
    assert [row["severity"] for row in rows] == ["critical", "minor", "info", "critical", "critical"]
    assert len({row["fingerprint"] for row in rows}) == len(rows) == 5
    assert "\n\nline 6: the graph was built here\n\nline 8: and freed here\n\n" in rows[0]["content"]["body"]
    assert {row["severity"] for row in rows} <= {"info", "minor", "major", "critical", "blocker"}
    assert rows[0]["location"] == {
        "path": "gan.py",
        "positions": {"begin": {"line": 12, "column": 5}, "end": {"line": 12, "column": 22}},
    }


def test_reviewdog_s_json_keeps_to_the_schema_and_counts_bytes() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    text = "é = '🔥'; loss.backward(retain_graph=True)"
    found = backward_twice(span=Span("gan.py", 1, 10, 1, 42), labels=())
    one = Fix("Drop", "safe", (Edit(Span("gan.py", 1, 24, 1, 41), ""),), "")
    half = Fix("Both", "safe", (*one.edits, Edit(Span("gan.py", 1, 1, 1, 1), "x")), "")
    file = Checked("gan.py", [found], [[one, half, detach()]])
    written = json.loads(rdjson.render([file, *some()], sources(text)))
    jsonschema.validate(written, json.loads((SCHEMAS / "reviewdog-diagnostic-result.json").read_text()))
    first, *others = written["diagnostics"]
    # `é` has two bytes and the flame four.
    assert first["location"]["range"] == {"start": {"line": 1, "column": 14}, "end": {"line": 1, "column": 46}}
    assert first["suggestions"] == [
        {"range": {"start": {"line": 1, "column": 28}, "end": {"line": 1, "column": 45}}, "text": ""}
    ]
    assert [row["severity"] for row in others] == ["ERROR", "INFO", "INFO", "ERROR", "ERROR"]
    assert [row["location"]["range"]["start"]["line"] for row in others[0]["related_locations"]] == [6, 8]


def test_junit_keeps_to_the_schema() -> None:
    xmlschema = pytest.importorskip("xmlschema")
    files = some()
    files[0].findings.append(backward_twice(message="\x00 \x1b[31m <&> 🔥\nmore"))
    written = junit.render(files)
    xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd")).validate(io.StringIO(written))
    root = ElementTree.fromstring(written.encode())
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("7", "3", "2")
    suites = {suite.get("name"): suite for suite in root}
    assert [child.tag for case in suites["gan.py"] for child in case] == ["failure", "failure", "skipped", "failure"]
    assert [len(case) for case in suites["fine.py"]] == [0]
    assert suites["bad.py"][0][0].tag == "error"


def test_what_fails_depends_on_the_level_and_on_the_run() -> None:
    file = some()[0]
    for level, failing in (("error", 1), ("warning", 1), ("info", 2), ("hint", 3), ("never", 0)):
        file.fail_on = level
        assert sum(map(file.fails, file.findings)) == failing, level
    file.fail_on, file.recorded = "hint", True
    for verdict, fails in (("confirmed", True), ("found-by-run", True), ("refuted", False), ("not-reached", False)):
        evidence = dataclasses.replace(confirmed(), verdict=verdict)
        assert file.fails(backward_twice(evidence=evidence)) == fails, verdict
    assert all(map(file.fails, file.findings)), "what the run leaves undecided stands"


def test_concise_has_a_line_each_and_marks_what_can_be_fixed() -> None:
    safe = Fix("Do", "safe", (), "")
    file = Checked("gan.py", [backward_twice(), backward_twice(), backward_twice()], [[safe], [detach()], []])
    lines = concise.render([file]).splitlines()
    said = "this backward reaches nodes that an earlier backward freed"
    assert lines == [
        f"gan.py:12:5: error[TAPE101] [*] {said}",
        f"gan.py:12:5: error[TAPE101] [?] {said}",
        f"gan.py:12:5: error[TAPE101] {said}",
        "Found 3 findings in 1 file: 3 errors.",
        "1 fixable with `--fix`, 1 more with `--fix --unsafe-fixes`.",
    ]
    assert concise.render([file], quiet=True).splitlines() == lines[:3]


def test_what_a_run_refuted_or_did_not_reach_is_counted_as_that() -> None:
    verdicts = (Evidence("refuted", "it ran"), Evidence("not-reached", "no"), confirmed(), None)
    file = Checked("gan.py", [backward_twice(evidence=verdict) for verdict in verdicts], recorded=True)
    *lines, last = concise.render([file]).splitlines()
    assert [line.rpartition(" freed")[2] for line in lines] == [" (refuted)", " (not reached)", " (confirmed)", ""]
    assert last == "Found 4 findings in 1 file: 4 errors; 1 refuted by the run, 1 not reached."


def test_statistics_count_by_rule() -> None:
    safe = Fix("Do", "safe", (), "")
    rare = backward_twice(code="TAPE301", name="needless-retain-graph", severity="info")
    file = Checked("gan.py", [backward_twice(), rare, backward_twice()], [[safe], [safe], []])
    legend = "[*] all have a safe fix (`--fix`), [-] some have, [ ] none has\n"
    rows = "2  TAPE101  [-]  backward-twice\n1  TAPE301  [*]  needless-retain-graph\n"
    assert statistics.render([file]) == rows + legend
    assert json.loads(statistics.render([file], as_json=True))[0] == {
        "code": "TAPE101", "name": "backward-twice", "count": 2, "fixable": 1,
    }  # fmt: skip
    assert statistics.render([]) == ""


def test_json_lines_are_the_rows_of_json() -> None:
    lines = formats.render("json-lines", some(), sources()).splitlines()
    assert [json.loads(line) for line in lines] == json.loads(formats.render("json", some(), sources()))


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_format_says_nothing_of_nothing_and_ends_with_a_newline(name: str) -> None:
    assert "gan.py:12" not in formats.render(name, [], sources())
    written = formats.render(name, some(), sources(), quiet=True)
    assert written.endswith("\n") and "\r" not in written
    with pytest.raises(ValueError):
        formats.render(f"no {name}", [], sources())


def test_what_else_is_to_be_said_is_in_every_format_that_has_room() -> None:
    own = Label(span(12, 5, 22), "freed here on the previous iteration", "freed")
    files = [Checked("gan.py", [backward_twice(notes=("the exception is swallowed",), labels=(own,))])]
    rendered = {
        "github": github.render(files), "junit": junit.render(files),
        "gitlab": gitlab.render(files, sources()), "sarif": sarif.render(files, sources()),
    }  # fmt: skip
    assert [name for name, text in rendered.items() if text.count("the exception is swallowed") != 1] == []
    assert "freed here on the previous iteration" in rendered["github"]
    assert rendered["sarif"].count("freed here on the previous iteration") >= 1


def test_what_a_work_limit_left_out_is_said_where_a_format_has_a_place_for_it() -> None:
    files = [Checked("gan.py", incomplete=[Incomplete("work limit reached: `f` not checked", 7)])]
    assert "gan.py:7:1: note[incomplete-analysis] work limit reached: `f` not checked\n" in concise.render(files)
    assert github.render(files) == (
        "::notice title=Tapecheck (incomplete-analysis),file=gan.py,line=7,endLine=7,col=1,endColumn=1"
        "::work limit reached: `f` not checked\n"
    )
    (invocation,) = log(files)["invocations"]
    (said,) = invocation["toolExecutionNotifications"]
    assert invocation["executionSuccessful"] and (said["level"], said["descriptor"]["id"]) == (
        "note",
        "incomplete-analysis",
    )
    assert said["locations"][0]["physicalLocation"]["region"]["startLine"] == 7
