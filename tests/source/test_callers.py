"""Who of a project may call what a file defines."""

from __future__ import annotations

import io
import random
import tokenize
from pathlib import Path

import pytest

from tapecheck.source.callers import Callers
from tapecheck.source.project import Setup

EVALUATION = "def evaluate(net, data):\n    for x in data:\n        print(net(x).sum().item())\n"


def _callers(path: Path) -> Callers:
    return Callers(Setup().project_of(str(path)), {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from library import evaluate\n", True),
        ("import library\n\nlibrary.evaluate(1, 2)\n", True),
        ("import library\n", False),
        ("evaluate = 1\n", False),
    ],
)
def test_a_function_is_named_by_those_that_import_its_file(text: str, named: bool, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    library = tmp_path / "library.py"
    library.write_text(EVALUATION)
    (tmp_path / "main.py").write_text(text)
    assert _callers(library).may_name("evaluate", method=False) is named


PIECES = (
    "evaluate(1, 2)",
    "# evaluate(1, 2)",
    "'# evaluate'",
    '"it\'s # evaluate"',
    "'\\'# evaluate'",
    "x = 1  # was: evaluate",
    '"""one \' # \n evaluate"""',
    "'''two \" \n# evaluate\n'''",
    "y = '#'  # evaluate 'later'",
    'z = "\'"',
    "print('#', \"'\", evaluate)",
    "# it's a comment",
    '# """ evaluate',
    "w = r'\\# evaluate'",
    "f'{evaluate}#'",
    "v = ''",
)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_commented_out_names_nothing(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    text = "import library\n" + "".join(piece + "\n" for piece in draw.choices(PIECES, k=draw.randint(1, 3)))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    named = any("evaluate" in token.string for token in tokens if token.type != tokenize.COMMENT)
    (tmp_path / "pyproject.toml").touch()
    library = tmp_path / "library.py"
    library.write_text(EVALUATION)
    (tmp_path / "main.py").write_text(text)
    assert _callers(library).may_name("evaluate", method=False) is named


def test_what_is_installed_may_be_called_by_anybody_and_nothing_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text(EVALUATION)
    (library.parent / "other.py").write_text("import library\n")
    monkeypatch.setattr(Callers, "_importers", lambda self: pytest.fail("the packages were looked through"))
    assert _callers(library).may_name("evaluate", method=False)
    assert _callers(library).may_name("evaluate", method=True)
    assert _callers(library).places_of(1) is None


def test_the_lines_that_name_a_function(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    library, main = tmp_path / "library.py", tmp_path / "main.py"
    library.write_text(EVALUATION + "\n\nruns = {'first': evaluate}\n")
    main.write_text(
        "from library import evaluate\n\nevaluate(1, 2)\n'library:evaluate'\n'evaluate it'\nx = = evaluate\n"
    )
    found = _callers(library).places_of(1)
    assert found is not None
    assert {(Path(path).name, line) for path, line in found} == {
        ("library.py", 6), ("main.py", 3), ("main.py", 4), ("main.py", 6),
    }  # fmt: skip
    assert _callers(library).places_of(2) is None
