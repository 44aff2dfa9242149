"""Where the dry run believes that a program raises: the interpreter's gaps, and real mistakes, but no guess's doing."""

from __future__ import annotations

import builtins
from textwrap import dedent

import pytest

from tapecheck.check import check
from tapecheck.source import from_text


def gaps(text: str) -> list[tuple[str, int]]:
    found = check(from_text(dedent(text), "train.py")).interpretation
    assert found.gaps <= found.mistakes
    return sorted((kind, span.line) for kind, span in found.gaps)


@pytest.mark.parametrize("name", [name for name in dir(builtins) if not name.startswith("_")])
def test_every_builtin_is_known(name: str) -> None:
    assert gaps(f"import torch\nx = {name}\n") == []


def test_what_the_module_has_from_python_is_known() -> None:
    names = ("__file__", "__name__", "__doc__", "__builtins__", "__spec__", "__package__", "__loader__", "__debug__")
    assert gaps("import torch\nx = [" + ", ".join(names) + "]\n") == []


def test_a_name_that_nothing_sets_is_a_gap_or_a_mistake() -> None:
    assert gaps("import torch\nfor x in loader:\n    print(x)\n") == [("NameError", 2)]
    assert gaps("x = None\nx.backward()\n") == [("AttributeError", 2)]
    assert gaps("import torch\noptions = {'a': 1}\nprint(options['b'])\n") == [("KeyError", 3)]


GUESSES = {
    "a name that the other side sets": """
        def f(flag):
            if flag:
                loss = 1
            print(loss)
        """,
    "a name behind a way out of the loop": """
        def f(rows):
            for row in rows:
                if row.skip:
                    continue
                total = row
            print(total)
        """,
    "keys read from a file": """
        def read(lines):
            blocks = []
            for line in lines:
                if line.startswith("["):
                    blocks.append({})
                else:
                    key, value = line.split("=")
                    blocks[-1][key] = value
            return int(blocks.pop(0)["width"])
        """,
    "an attribute that the other side sets": """
        class Agent:
            def __init__(self, recurrent):
                self.state = None
                if recurrent:
                    self.state = make()

            def act(self):
                return self.state.detach()

        def make():
            return open("state")

        def f(recurrent):
            Agent(recurrent).act()
        """,
}

WORKED_OUT = """
    import torch


    class Storage:
        def __init__(self, size):
            self.keys = ["state", "action", "reward", "mask", "v", "q", "pi", "entropy", "advantage", "ret", "mean"]
            self.size = size
            for key in self.keys:
                setattr(self, key, [])

        def feed(self, data):
            for key, value in data.items():
                getattr(self, key).append(value)

        def fill(self):
            for key in self.keys:
                if len(getattr(self, key)) == 0:
                    setattr(self, key, [None] * self.size)


    def step(network, state, size):
        storage = Storage(size)
        for _ in range(size):
            storage.feed(network(state))
            storage.feed({"reward": torch.ones(3), "mask": torch.ones(3)})
        storage.fill()
        for i in reversed(range(size)):
            storage.advantage[i] = storage.reward[i] - storage.v[i].detach()
            storage.mean[i] = storage.ret[i]
"""


def test_attributes_under_names_that_are_worked_out_are_no_gap() -> None:
    assert gaps(WORKED_OUT) == []


@pytest.mark.parametrize("program", GUESSES.values(), ids=list(GUESSES))
def test_what_a_guess_left_out_is_no_gap(program: str) -> None:
    assert gaps(f"import torch\n{dedent(program)}") == []


def test_the_first_iteration_is_one_of_every_so_many() -> None:
    program = """
        import torch
        def f(every, loader, model):
            for i, x in enumerate(loader):
                if i % every == 0:
                    fake = model(x)
                print(fake)
        """
    assert check(from_text(dedent(program), "train.py")).interpretation.mistakes == set()
