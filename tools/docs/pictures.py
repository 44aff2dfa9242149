"""The pictures of docs/life-of-a-graph.md, drawn from recorded runs of its programs: `python -m tools.docs.pictures`.

A program of the page is followed by the picture that is made of it. `--check` writes nothing and exits with 1 where a
picture is not current. Needs torch.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tapecheck.report import Checked, graph, html
from tapecheck.tape import read_tape

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "life-of-a-graph.md"

_DRAWN = re.compile(
    r"^```python\n((?:(?!^```).*\n)*?)```\n(?:(?!^#|^```).*\n)*?!\[[^\]]*\]\((\S+\.svg)\)", re.MULTILINE
)


def programs() -> dict[Path, str]:
    """Return the programs of the page by the files of their pictures."""
    return {PAGE.parent / picture: program for program, picture in _DRAWN.findall(PAGE.read_text(encoding="utf-8"))}


def picture(program: str, name: str) -> str:
    """Run a program under the recorder and return the SVG of its tape; raises RuntimeError where there is no tape."""
    with tempfile.TemporaryDirectory() as folder:
        script, tape = Path(folder) / f"{name}.py", Path(folder) / f"{name}.tape"
        script.write_text(program, encoding="utf-8")
        command = [sys.executable, "-m", "tapecheck", "run", "--quiet", "--tape", str(tape), str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
        if not tape.exists():
            raise RuntimeError(f"{name}: {done.stderr}")
        recorded = read_tape(tape.read_text(encoding="utf-8").splitlines())
        drawn = graph.render(html.Run(Checked(script.name), recorded, None, "recorded run"))
        return drawn.replace(f"{folder}/", "")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the pictures of the documentation.")
    parser.add_argument("--check", action="store_true", help="write nothing, say which pictures are not current")
    options = parser.parse_args(arguments)
    stale = False
    for path, program in programs().items():
        drawn = picture(program, path.stem)
        if path.exists() and path.read_text(encoding="utf-8") == drawn:
            continue
        stale = True
        if options.check:
            sys.stderr.write(f"{path} is not current: run python -m tools.docs.pictures\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(drawn, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
