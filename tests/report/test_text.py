from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapecheck.fixes import Edit, Fix
from tapecheck.report import Checked, Problem, Sources, text
from tapecheck.report.excerpt import width
from tapecheck.rules.finding import Evidence, Finding, Label
from tapecheck.tape import Span
from tests.report.build import GAN, backward_twice, confirmed, detach, once, span


def sources(**files: str) -> Sources:
    named = {name.replace("_py", ".py"): code.split("\n") for name, code in files.items()}
    return Sources({"gan.py": GAN.split("\n"), **named})


def shown(finding: Finding, code: str | None = None, **options: object) -> str:
    given = Sources({finding.span.file: code.split("\n")}) if code is not None else sources()
    return text.render_finding(finding, given, **options)  # type: ignore[arg-type]


def test_tells_the_story_in_the_order_of_lines() -> None:
    assert (
        shown(backward_twice())
        == """\
error[TAPE101]: this backward reaches nodes that an earlier backward freed
  --> gan.py:12:5
   |
 6 |     score = critic(fake)
   |             ------------ the graph was built here
 7 |     d_loss = score.mean()
 8 |     d_loss.backward()
   |     ----------------- and freed here
...
12 |     g_loss.backward()
   |     ^^^^^^^^^^^^^^^^^
   |
   = help: add the losses and call backward once
"""
    )


def test_labels_in_another_file_stand_in_a_block_of_their_own() -> None:
    nets = "import torch\n\ndef critic(x):\n    return body(x)\n"
    finding = backward_twice(
        labels=(
            Label(span(4, 12, 19, file="nets.py"), "the graph was built here", "built"),
            Label(span(8, 5, 22), "and freed here", "freed"),
        )
    )
    assert (
        text.render_finding(finding, sources(nets_py=nets))
        == """\
error[TAPE101]: this backward reaches nodes that an earlier backward freed
  --> gan.py:12:5
   |
 8 |     d_loss.backward()
   |     ----------------- and freed here
...
12 |     g_loss.backward()
   |     ^^^^^^^^^^^^^^^^^
  ::: nets.py:4:12
   |
 4 |     return body(x)
   |            ------- the graph was built here
   |
   = help: add the losses and call backward once
"""
    )


def test_several_labels_on_one_line_hang_below_it() -> None:
    code = "a.backward(); b.backward(); c.backward()"
    finding = backward_twice(
        span=span(1, 15, 27),
        labels=(
            Label(span(1, 1, 13), "freed here", "freed"),
            Label(span(1, 29, 41), "and once more here", "path"),
            Label(span(1, 15, 27), "reached again here", "path"),
        ),
    )
    assert (
        shown(finding, code)
        == """\
error[TAPE101]: this backward reaches nodes that an earlier backward freed
 --> gan.py:1:15
  |
1 | a.backward(); b.backward(); c.backward()
  | ------------  ^^^^^^^^^^^^  ------------ and once more here
  | |             |
  | |             reached again here
  | |
  | freed here
  |
  = help: add the losses and call backward once
"""
    )


def test_a_label_within_the_primary_span_keeps_both_visible() -> None:
    finding = backward_twice(
        span=span(1, 1, 26), labels=(Label(span(1, 7, 15), "the state is carried here", "carried"),)
    )
    assert (
        shown(finding, "loss = (hidden + x).mean()")
        == """\
error[TAPE101]: this backward reaches nodes that an earlier backward freed
 --> gan.py:1:1
  |
1 | loss = (hidden + x).mean()
  | ^^^^^^^^^^^^^^^^^^^^^^^^^
  |       |
  |       the state is carried here
  |
  = help: add the losses and call backward once
"""
    )


def test_tabs_and_wide_characters_stay_aligned() -> None:
    code = "\t损失 = 模型(输入); é = f(x)"
    finding = backward_twice(
        span=span(1, 7, 13), labels=(Label(span(1, 15, 24), "decomposed, one column wide", "built"),)
    )
    excerpt = shown(finding, code.replace("é", "e\u0301")).splitlines()[3:5]
    assert excerpt == [
        "1 |     损失 = 模型(输入); e\u0301 = f(x)",
        "  |            ^^^^^^^^^^  -------- decomposed, one column wide",
    ]
    line, marks = (row.split("| ", 1)[1] for row in excerpt)
    assert width(line[: line.index("模")]) == marks.index("^")
    assert width(line[: line.index(";")]) == marks.rindex("^") + 1


def test_emoji_take_two_columns() -> None:
    excerpt = shown(backward_twice(span=span(1, 10, 14), labels=()), 'log("🔥", loss)').splitlines()
    assert excerpt[3:5] == ['1 | log("🔥", loss)', "  |           ^^^^"]


def test_a_span_over_lines_is_underlined_line_by_line() -> None:
    code = "out = model(\n    a,\n    b,\n)\n"
    rendered = shown(backward_twice(span=span(1, 7, 2, end_line=4), labels=()), code)
    assert (
        "\n".join(rendered.splitlines()[3:11])
        == """\
1 | out = model(
  |       ^^^^^^
2 |     a,
  |     ^^
3 |     b,
  |     ^^
4 | )
  | ^"""
    )


def test_a_long_span_is_underlined_on_its_first_line_only() -> None:
    code = "out = model(\n" + "    a,\n" * 20 + ")\n"
    assert shown(backward_twice(span=span(1, 7, 2, end_line=22), labels=()), code).count("^") == len("model(")


def test_a_statement_around_the_finding_is_underlined_on_its_first_line_only() -> None:
    code = "for x in data:\n    total += f(x)\n"
    loop = Label(span(1, 1, 18, end_line=2), "in this loop", "carried")
    rendered = shown(backward_twice(span=span(2, 5, 18), labels=(loop,)), code)
    assert (
        "\n".join(rendered.splitlines()[3:7])
        == """\
1 | for x in data:
  | -------------- in this loop
2 |     total += f(x)
  |     ^^^^^^^^^^^^^"""
    )


@pytest.mark.parametrize("columns", [70, 90, 110])
def test_an_underline_ends_where_its_line_is_cut(columns: int) -> None:
    code = "loss.backward(" + "gradient_of_the_loss, " * 8 + "retain_graph=True)   "
    last = Label(span(1, code.index("retain") + 1, len(code.rstrip()) + 1), "freed here", "freed")
    finding = backward_twice(span=span(1, 1, len(code) + 1), labels=(last,))
    line, marks = (row.split("| ", 1)[1] for row in shown(finding, code, width=columns).splitlines()[3:5])
    assert line.endswith("...") and marks.rindex("^") + 1 == len(line) - 3
    assert marks.index("-") == len(line) - 3, "what is not shown stands at the dots"
    wide = shown(finding, code, width=300).splitlines()[3:5]
    assert len(wide[1]) == len(wide[0]), "the blanks behind the line are none of it"


def test_a_very_long_line_is_cut_around_the_span() -> None:
    code = "x = [" + "1, " * 2000 + "loss.backward(), " + "2, " * 2000 + "]"
    start = code.index("loss") + 1
    rendered = shown(backward_twice(span=span(1, start, start + 15), labels=()), code, width=80)
    line, marks = rendered.splitlines()[3:5]
    assert max(width(row) for row in rendered.splitlines()) <= 80
    assert line.startswith("1 | ...") and line.endswith("...")
    assert line[marks.index("^") : marks.rindex("^") + 1] == "loss.backward()"


def test_help_and_message_may_have_several_lines() -> None:
    finding = backward_twice(message="first\nsecond", help="do this\nand that")
    assert shown(finding).endswith("   = note: second\n   = help: do this\n           and that\n")


def test_notes_stand_between_the_excerpt_and_the_help() -> None:
    finding = backward_twice(notes=("the exception is swallowed", "and \x1b[2J more"), help="do this")
    rendered = shown(finding)
    assert re.search(r"\n   = note: the exception is swallowed\n   = note: and .*more\n   = help: do this\n$", rendered)
    assert "\x1b" not in rendered


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("not-reached", "not reached"), ("found-by-run", "found at run time"), ("refuted", "refuted")],
)
def test_verdicts_are_said_in_words(verdict: str, words: str) -> None:
    evidence = Evidence(verdict, "line 3")  # type: ignore[arg-type]
    assert f"   = run: {words}: line 3\n" in shown(backward_twice(evidence=evidence))


def test_evidence_of_a_recorded_run_is_said() -> None:
    assert "   = run: confirmed: RuntimeError at iteration 1\n" in shown(backward_twice(evidence=confirmed()))


def test_the_preferred_fix_is_shown_as_lines_out_and_in() -> None:
    rendered = shown(backward_twice(), fixes=[detach(), once()])
    assert (
        rendered.split("once\n", 1)[1]
        == """\
   = fix (unsafe): Detach `fake` for the critic's loss
                   the generator gets no gradient from `d_loss`
 5 |     fake = generator(noise)
 6 -     score = critic(fake)
   +     score = critic(fake.detach())
 7 |     d_loss = score.mean()
   = or (unsafe): Call backward once on the sum
                  both networks learn from both losses
"""
    )


@pytest.mark.parametrize("line", [2, 3, 4])
def test_of_lines_that_are_alike_the_one_that_the_fix_takes_out_is_shown(line: int) -> None:
    code = "first()\nagain()\nagain()\nagain()\nlast()\n"
    drop = Fix("Drop one", "unsafe", (Edit(Span("gan.py", line, 1, line + 1, 1), ""),), "")
    rendered = shown(backward_twice(), code, fixes=[drop])
    assert [row.split() for row in rendered.split("Drop one\n", 1)[1].splitlines()] == [
        [str(line - 1), "|", code.splitlines()[line - 2]],
        [str(line), "-", "again()"],
        [str(line + 1), "|", code.splitlines()[line]],
    ]


def test_a_fix_in_two_places_shows_both() -> None:
    rendered = shown(backward_twice(), fixes=[once()])
    assert (
        rendered.split("losses\n", 1)[1]
        == """\
 7 |     d_loss = score.mean()
 8 -     d_loss.backward()
 9 |
...
11 |     g_loss = -score.mean()
12 -     g_loss.backward()
   +     (d_loss + g_loss).backward()
13 |     g_opt.step()
"""
    )


def test_without_colour_no_escape_is_written_and_with_it_only_colours() -> None:
    file = Checked("gan.py", [backward_twice(evidence=confirmed())], [[detach()]])
    plain = text.render([file], sources())
    coloured = text.render([file], sources(), colour=True)
    assert "\x1b" not in plain
    assert "\x1b[1;31merror[TAPE101]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_source_and_names_cannot_steer_the_terminal() -> None:
    finding = backward_twice(span=span(1, 1, 2, file="a\x1b]0;b.py"), message="\x1b[2Jgone", labels=())
    rendered = text.render_finding(finding, Sources({"a\x1b]0;b.py": ["x = '\x1b[31m\u202e'"]}))
    assert "\x1b" not in rendered and "\u202e" not in rendered
    assert "1 | x = '\ufffd[31m\ufffd'" in rendered


def test_a_file_that_is_gone_still_leaves_its_lines() -> None:
    finding = backward_twice(span=span(12, 5, 22, file="gone.py"), labels=())
    rendered = text.render_finding(finding, Sources({"gone.py": []}))
    assert rendered.splitlines()[1:3] == ["  --> gone.py:12:5", "   | line 12"]


def test_problems_stand_among_the_findings_and_in_the_summary() -> None:
    files = [
        Checked("bad.py", problems=[Problem("invalid-syntax", "'(' was never closed", 2, 5)]),
        Checked("no.py", problems=[Problem("io-error", "No such file or directory")]),
        Checked("gan.py", [backward_twice(), backward_twice(severity="info", code="TAPE301")]),
    ]
    rendered = text.render(files, sources(bad_py="if x:\n    print(\n"))
    assert rendered.startswith("""\
error[invalid-syntax]: '(' was never closed
 --> bad.py:2:5
  |
2 |     print(
  |     ^
  = note: skipped this statement; the rest of the file was checked

error[io-error]: No such file or directory
 --> no.py

error[TAPE101]""")
    assert rendered.endswith(
        "\n\nFound 2 findings in 1 file: 1 error, 1 info. 2 files could not be checked completely.\n"
    )


@pytest.mark.parametrize(("files", "said"), [(0, "0 files"), (1, "1 file"), (3, "3 files")])
def test_nothing_found_is_said_too(files: int, said: str) -> None:
    assert text.render([Checked("a.py")] * files, Sources()) == f"No problems found ({said} checked).\n"


@given(
    code=st.text(max_size=200),
    line=st.integers(1, 6),
    column=st.integers(1, 60),
    rows=st.integers(0, 6),
    end=st.integers(1, 60),
    second=st.integers(1, 60),
    columns=st.integers(10, 60),
)
def test_any_span_over_any_text_renders_within_the_width(
    code: str, line: int, column: int, rows: int, end: int, second: int, columns: int
) -> None:
    finding = backward_twice(
        span=span(line, column, end, end_line=line + rows),
        labels=(Label(span(line, second, second + 5), "", "built"),),
        message="m",
        help="h",
    )
    rendered = shown(finding, code, width=columns)
    assert all(width(row) <= max(columns, 40 + 8) for row in rendered.split("\n"))
    steering = {character for character in rendered if unicodedata.category(character) in ("Cc", "Zl", "Zp")}
    assert steering <= {"\n"}


def test_the_part_of_a_long_line_that_a_fix_changes_is_shown() -> None:
    before = f"loss = net(x).sum(); {'print(loss); ' * 8}kept.append(loss)"
    at = before.index("loss)", before.index("kept")) + len("loss") + 1
    fix = Fix("Store `loss` detached", "safe", (Edit(Span("a.py", 1, at, 1, at), ".detach()"),), "")
    finding = backward_twice(span=Span("a.py", 1, 1, 1, 5), labels=())
    shown = text.render_finding(finding, Sources({"a.py": [before]}), fixes=[fix], width=80)
    removed, added = (row for row in shown.splitlines() if row[2:4] in ("- ", "+ "))
    assert removed.endswith("kept.append(loss)") and added.endswith("kept.append(loss.detach())")
    assert max(map(len, (removed, added))) <= 80
