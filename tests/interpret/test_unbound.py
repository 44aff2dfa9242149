"""Names that one answer to a condition binds and another does not: a program whose `if`s end without an `else` is
judged as one that raises there.
"""

from __future__ import annotations

import itertools
from textwrap import indent

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import torch_raises_at

ASKED = {
    "an option": "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--kind', default='{0}')\n"
    "kind = parser.parse_args([]).kind\n",
    "a variable of the environment": "import os\nkind = os.environ.get('KIND_OF_A_TEST', '{0}')\n",
    "a file": "import pathlib, tempfile\npath = pathlib.Path(tempfile.mkdtemp()) / 'kind'\npath.write_text('{0}')\n"
    "kind = path.read_text()\n",
}
ONE = "model, measure = nn.Linear(3, 1), torch.argmax\n"
TWO = "model, measure = nn.Linear(3, 2, bias=False), torch.argmin\n"
SIDES = {
    "two": f"if kind == 'one':\n    {ONE}elif kind == 'two':\n    {TWO}",
    "three": f"if kind == 'one':\n    {ONE}elif kind.startswith('tw'):\n    {TWO}"
    "elif kind in ('three', 'four'):\n    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))\n"
    "    measure = torch.argmax\n",
    "one inside another": f"if kind == 'one':\n    {ONE}else:\n    if kind == 'two':\n        {TWO}",
    "names of other kinds": f"if kind == 'one':\n    {ONE}elif kind == 'two':\n    import torch.nn as layers\n"
    "    model = layers.Linear(3, 2)\n    def measure(out):\n        return out.argmax()\n",
}
TRAINED = """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(5, 3)).pow(2).mean().backward()
    optimizer.step()
"""
USES = {
    "an evaluation": TRAINED + "for batch in range(3):\n    print(model(torch.randn(5, 3)).argmax(1).sum().item())\n",
    "an evaluation by what came with the model": TRAINED
    + "for batch in range(3):\n    print(measure(model(torch.randn(5, 3))).item())\n",
    "a graph that is retained": TRAINED.replace("backward()", "backward(retain_graph=True)"),
    "gradients that nobody clears": TRAINED.replace("    optimizer.zero_grad()\n", ""),
    "a second backward": TRAINED + "loss = model(torch.randn(5, 3)).pow(2).mean()\nloss.backward()\nloss.backward()\n",
    "a backward that retains before a measurement": TRAINED.replace("backward()", "backward(retain_graph=True)")
    + "    measure(model(torch.randn(5, 3)))\n",
    "a list of losses": TRAINED
    + "kept = []\nfor batch in range(3):\n    kept.append(model(torch.randn(5, 3)).sum())\n",
    "nothing to tell": TRAINED,
}
PLACES = {
    "in the module": "{sides}{use}",
    "in a function": "def main(kind):\n{inner_sides}{inner_use}\nmain(kind)\n",
    "in a function that reads a global": "{sides}\ndef main():\n{inner_use}\nmain()\n",
}


def written(asked: str, sides: str, use: str, place: str, kind: str = "one", last: str = "") -> str:
    """Return a program; `last` is what stands for the kinds that no `if` asks for."""
    level = "    " if sides == "one inside another" else ""
    chosen = SIDES[sides] + indent(last, level)
    body = PLACES[place].format(
        sides=chosen, use=USES[use], inner_sides=indent(chosen, "    "), inner_use=indent(USES[use], "    ")
    )
    return "import torch\nfrom torch import nn\n" + ASKED[asked].format(kind) + body


def told(program: str) -> list[tuple[str, str, bool]]:
    """Return what is found: the rule, the text of the line, and whether it is certain."""
    lines = program.splitlines()
    return sorted(
        (one.code, lines[one.span.line - 1], one.certain) for one in check(from_text(program, "a.py")).findings
    )


RAISING = "else:\n    raise ValueError(kind)\n"
EVERY = list(itertools.product(ASKED, SIDES, USES, PLACES))


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("place", PLACES)
def test_what_no_side_binds_is_as_what_raises(asked: str, place: str) -> None:
    for sides, use in itertools.product(SIDES, USES):
        bare, raising = (told(written(asked, sides, use, place, last=last)) for last in ("", RAISING))
        assert bare == raising, (sides, use)
        assert bool(bare) == (use != "nothing to tell"), (sides, use)


def test_torch_has_no_run_in_which_nothing_binds_the_name() -> None:
    programs = {
        str((*one, kind)): written(*one, kind=kind)
        for one in EVERY
        for kind in ("one", "nothing of that")
        if one[0] == "a file" and one[3] == "in the module"
    }
    outcomes = torch_raises_at(programs)
    for name, program in programs.items():
        line, message = outcomes[name]
        first = next(number for number, text in enumerate(program.splitlines(), 1) if "model.parameters()" in text)
        if "nothing of that" in name:
            assert line == first and "'model'" in message, name
        else:
            assert (line is None) == ("a second backward" not in name), name


TWICE = "loss = torch.ones(3, requires_grad=True).exp().sum()\n{0}loss.backward()\n{0}loss.backward()\n"
MISSING = """
import torch
import settings
if settings.kind == "one":
    lr = 0.1
if settings.told:
    print(logger)
    """ + TWICE.format("    ")


def test_a_name_that_nothing_ever_binds_ends_no_way() -> None:
    # Other cells bind names, and files that nobody has opened.
    assert [one.code for one in check(from_text(MISSING, "train.py")).findings] == ["TAPE101"]


BOUND_BY_WHO_CALLS = (
    """
import torch

def made(settings):
    if settings.kind == "one":
        device = "cpu"
        return device
    return "cuda"

def train(settings):
    made(settings)
    if settings.told:
        print(device)
        """
    + TWICE.format("        ")
    + """
if __name__ == "__main__":
    import settings
    device = made(settings)
    train(settings)
"""
)


def test_a_global_of_the_main_block_ends_no_way_of_a_function() -> None:
    # A test in another function binds a variable of its own.
    for text in (BOUND_BY_WHO_CALLS, BOUND_BY_WHO_CALLS.partition("if __name__")[0]):
        assert [one.code for one in check(from_text(text, "train.py")).findings] == ["TAPE101"]
