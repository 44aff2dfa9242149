"""What is worked out from nodes lies beside the tree, and outlives the edits that leave the nodes."""

from __future__ import annotations

import ast
from pathlib import Path

from tapecheck.check import Memory, check
from tapecheck.source import from_text
from tapecheck.source.nodes import walk
from tapecheck.source.notes import placeless

PROGRAM = "\n".join(
    [
        "import torch",
        *(f"def f{number}(x, flag):\n    if flag:\n        return x\n    return x * {number}" for number in range(12)),
        "w = torch.ones(3, requires_grad=True)",
        "loss = f1(w, input()).sum()",
        "loss.backward()",
        "loss.backward()",
    ]
)


def test_what_is_asked_again_is_not_worked_out_again() -> None:
    source = from_text(PROGRAM, "a.py")
    asked: list[ast.AST] = []

    def kind(node: ast.AST) -> str:
        asked.append(node)
        return type(node).__name__

    first = source.tree.body[1]
    assert [source.notes.of(first, kind) for _ in range(3)] == ["FunctionDef"] * 3
    assert asked == [first]


def test_an_edit_keeps_what_is_known_of_the_statements_that_it_leaves() -> None:
    before = from_text(PROGRAM, "a.py")
    asked: list[int] = []

    def place(node: ast.stmt) -> int:
        asked.append(node.lineno)
        return node.lineno

    for statement in before.tree.body:
        before.notes.of(statement, place)
    asked.clear()
    after = from_text(PROGRAM.replace("x * 5", "x * 55"), "a.py", before=before)
    assert [after.notes.of(statement, place) for statement in after.tree.body] == [
        statement.lineno for statement in after.tree.body
    ]
    changed = next(statement for statement in after.tree.body if getattr(statement, "name", "") == "f5")
    assert asked == [changed.lineno]
    # What was worked out since stands in its own notes.
    asked.clear()
    assert before.notes.of(changed, place) == changed.lineno
    assert asked == [changed.lineno]


@placeless
def name_of(node: ast.stmt) -> str:
    return getattr(node, "name", "")


def test_an_edit_that_moves_lines_keeps_what_holds_no_place() -> None:
    before = from_text(PROGRAM, "a.py")

    def place(node: ast.stmt) -> int:
        return node.lineno

    for statement in before.tree.body:
        before.notes.of(statement, name_of)
        before.notes.of(statement, place)
    after = from_text(PROGRAM.replace("def f5(x", "# five\ndef f5(y"), "a.py", before=before)
    known = {name: set(notes) for name, notes in after.notes._answers.items()}
    moved = [node for node in after.tree.body if node.lineno > 22 and name_of(node) != "f5"]
    assert moved and known[name_of].issuperset(moved)
    assert known[place].isdisjoint(moved)
    assert [after.notes.of(node, name_of) for node in moved] == [name_of(node) for node in moved]


def test_a_text_of_another_name_shares_no_places() -> None:
    before = from_text(PROGRAM, "a.py")
    check(before)
    moved = from_text(PROGRAM, "b.py", before=before)
    assert {finding.span.file for finding in check(moved).findings} == {"b.py"}


def test_checking_leaves_the_tree_as_the_parser_made_it(tmp_path: Path) -> None:
    for folder in ("interpret", "cases"):
        for path in sorted(Path(__file__).parents[1].joinpath(folder).glob("programs/*.py"))[:12]:
            source = from_text(path.read_text(), str(tmp_path / path.name))
            check(source, memory=Memory())
            for node in walk(source.tree):
                assert set(vars(node)) <= {*node._fields, *node._attributes}, (path.name, vars(node))
