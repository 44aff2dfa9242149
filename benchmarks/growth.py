"""How the time of a check grows with a program: with its length, its functions, what is nested, its calls and classes.

    python benchmarks/growth.py [NAME...] [--times 2]

Writes programs of three sizes, each twice as large as the one before, and prints the processor time of their checks,
the power of the size that the time grows with from the second to the third, the findings, and how many notes say that
a limit ended the analysis. All of them have a mistake at their end. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

from tapecheck.check import check, limits_of
from tapecheck.source import from_text

HEAD = "import sys\nimport torch\nfrom torch import nn\nw = torch.ones(3, requires_grad=True)\n"
TWICE = "loss = w.exp().sum()\nloss.backward()\nloss.backward()\n"
AGAIN = ".sum()\nloss.backward()\nloss.backward()\n"
LEAF = "class A0(nn.Module):\n    def forward(self, x):\n        return x * w\n"


def _each(text: str, first: int, last: int) -> str:
    return "".join(text.replace("{n}", str(n)).replace("{m}", str(n - 1)) for n in range(first, last))


def _nested(header: str, depth: int, inside: str) -> str:
    heads = "".join(f"{'    ' * level}{header}\n".replace("{n}", str(level)) for level in range(depth))
    return heads + "".join(f"{'    ' * depth}{line}\n" for line in inside.splitlines())


FIRST = "def f0(x):\n    return x * w\n"
UNCALLED = "def f{n}(x):\n    loss = (x * w).sum()\n    loss.backward()\n    loss.backward()\n"
UNDECIDED = "if sys.argv[{n}]:\n    x = x.detach()\nelse:\n    x = x * w\n"
DIAMOND = "class B{n}(A{m}):\n    pass\nclass C{n}(A{m}):\n    pass\nclass A{n}(B{n}, C{n}):\n    pass\n"
NETWORK = "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n"


def _functions(body: str, size: int) -> str:
    return FIRST + _each(f"def f{{n}}(x):\n    return {body}\n", 1, size) + f"loss = f{size - 1}(w){AGAIN}"


def _classes(made: str, size: int) -> str:
    return f"{LEAF}{_each(made, 1, size)}loss = A{size - 1}()(w){AGAIN}"


def _layers(size: int) -> str:
    layers = _each("        self.l{n} = nn.Linear(3, 3)\n", 0, size)
    forward = _each("        x = self.l{n}(x)\n", 0, size)
    return f"{NETWORK}{layers}    def forward(self, x):\n{forward}        return x\nloss = N()(w){AGAIN}"


def _test(size: int) -> str:
    return f"if {' and '.join(f'sys.argv[{n}]' for n in range(size))}:\n    w = w * 2\n{TWICE}"


def _comprehensions(size: int) -> str:
    return f"x = {'[' * size}w{''.join(f' for i{n} in range(4)]' for n in range(size))}\n{TWICE}"


PROGRAMS: dict[str, tuple[int, Callable[[int], str]]] = {
    "lines": (400, lambda size: _each("a{n} = w * {n}\n", 0, size) + TWICE),
    "a chain of operations": (400, lambda size: "x = w.exp()\n" + "x = x * 2 + 1\n" * size + f"loss = x{AGAIN}"),
    "functions, called": (400, lambda size: _each("def f{n}(x):\n    return x * {n}\nf{n}(w)\n", 0, size) + TWICE),
    "functions, not called": (50, lambda size: _each(UNCALLED, 0, size)),
    "conditions": (20, lambda size: f"x = w.exp()\n{_each(UNDECIDED, 0, size)}loss = x{AGAIN}"),
    "conditions, nested": (8, lambda size: _nested("if len(sys.argv) > {n}:", size, TWICE)),
    "a test of many parts": (100, _test),
    "loops": (400, lambda size: _each("for i in range(100):\n    x{n} = w * i\n", 0, size) + TWICE),
    "loops, nested": (4, lambda size: _nested("for i{n} in range(10):", size, TWICE)),
    "calls, nested": (20, lambda size: _functions("f{m}(x)", size)),
    "a tree of calls": (8, lambda size: _functions("f{m}(x) + f{m}(x)", size)),
    "a chain of classes": (400, lambda size: _classes("class A{n}(A{m}):\n    pass\n", size)),
    "diamonds of classes": (80, lambda size: _classes(DIAMOND, size)),
    "layers": (100, _layers),
    "comprehensions, nested": (3, _comprehensions),
}


def measured(text: str) -> tuple[float, int, int]:
    """Return the seconds of processor time that a check takes, its findings and how many limits it met."""
    began = time.process_time()
    report = check(from_text(HEAD + text, "/benchmark/grown.py"))
    return time.process_time() - began, len(report.findings), len(limits_of(report))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="which programs (default: all)")
    parser.add_argument("--times", type=int, default=1, help="sizes so many times as large (default: 1)")
    options = parser.parse_args()
    measured(TWICE)
    for name, (size, program) in PROGRAMS.items():
        if options.names and name not in options.names:
            continue
        sizes = [options.times * size * factor for factor in (1, 2, 4)]
        rows = [measured(program(one)) for one in sizes]
        power = math.log2(max(rows[2][0], 1e-3) / max(rows[1][0], 1e-3))
        shown = ", ".join(f"{one}: {row[0] * 1000:.0f} ms" for one, row in zip(sizes, rows))
        cut = f", {rows[2][2]} notes of a limit" if rows[2][2] else ""
        print(f"{name:24} {shown}; power {power:.1f}; {rows[2][1]} findings{cut}", flush=True)


if __name__ == "__main__":
    main()
