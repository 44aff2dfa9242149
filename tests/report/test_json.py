from __future__ import annotations

import json as reader

from tapecheck.report import Checked, Problem, json
from tests.report.build import backward_twice, confirmed, detach, once


def test_has_ruffs_shape_with_alternatives_and_related() -> None:
    finding = backward_twice(notes=("both losses are learned from",))
    rows = reader.loads(json.render([Checked("gan.py", [finding], [[detach(), once()]])]))
    assert rows == [
        {
            "code": "TAPE101",
            "name": "backward-twice",
            "message": "this backward reaches nodes that an earlier backward freed",
            "filename": "gan.py",
            "cell": None,
            "location": {"row": 12, "column": 5},
            "end_location": {"row": 12, "column": 22},
            "severity": "error",
            "url": "https://tapecheck.readthedocs.io/en/latest/rules/tape101-backward-twice/",
            "notes": ["both losses are learned from"],
            "help": "add the losses and call backward once",
            "certain": True,
            "rests_on": [],
            "fix": {
                "applicability": "unsafe",
                "message": "Detach `fake` for the critic's loss",
                "changes": "the generator gets no gradient from `d_loss`",
                "edits": [
                    {
                        "content": ".detach()",
                        "location": {"row": 6, "column": 24},
                        "end_location": {"row": 6, "column": 24},
                    }
                ],
            },
            "alternatives": [
                {
                    "applicability": "unsafe",
                    "message": "Call backward once on the sum",
                    "changes": "both networks learn from both losses",
                    "edits": [
                        {
                            "content": "",
                            "location": {"row": 8, "column": 1},
                            "end_location": {"row": 9, "column": 1},
                        },
                        {
                            "content": "(d_loss + g_loss)",
                            "location": {"row": 12, "column": 5},
                            "end_location": {"row": 12, "column": 11},
                        },
                    ],
                }
            ],
            "related": [
                {
                    "filename": "gan.py",
                    "location": {"row": 6, "column": 13},
                    "end_location": {"row": 6, "column": 25},
                    "message": "the graph was built here",
                    "role": "built",
                },
                {
                    "filename": "gan.py",
                    "location": {"row": 8, "column": 5},
                    "end_location": {"row": 8, "column": 22},
                    "message": "and freed here",
                    "role": "freed",
                },
            ],
        }
    ]


def test_without_fixes_fix_is_null() -> None:
    row = reader.loads(json.render([Checked("gan.py", [backward_twice()])]))[0]
    assert row["fix"] is None and row["alternatives"] == []


def test_evidence_is_there_when_the_program_was_run() -> None:
    findings = [backward_twice(evidence=confirmed()), backward_twice()]
    first, second = reader.loads(json.render([Checked("gan.py", findings)], evidence=True))
    assert first["evidence"] == {
        "verdict": "confirmed",
        "detail": "RuntimeError at iteration 1",
        "iteration": 1,
        "measured": {"seconds": 0.25},
    }
    assert second["evidence"] is None
    assert "evidence" not in reader.loads(json.render([Checked("gan.py", findings)]))[0]


def test_problems_are_entries_of_the_same_shape() -> None:
    problems = [Problem("invalid-syntax", "invalid syntax", 3, 5), Problem("io-error", "Permission denied")]
    files = [Checked("a.py", problems=problems), Checked("b.py", [backward_twice()])]
    rows = reader.loads(json.render(files))
    assert [(row["code"], row["location"]["row"], row["url"], row["fix"]) for row in rows[:2]] == [
        ("invalid-syntax", 3, None, None),
        ("io-error", 1, None, None),
    ]
    assert rows[0].keys() == rows[2].keys()


def test_nothing_found_is_an_empty_list() -> None:
    assert json.render([Checked("a.py")]) == "[]\n"


def test_text_that_no_encoding_takes_is_escaped() -> None:
    rendered = json.render([Checked("\udce9.py", problems=[Problem("io-error", "🔥 \ud800")])])
    assert rendered.isascii() and reader.loads(rendered)[0]["filename"] == "\udce9.py"
