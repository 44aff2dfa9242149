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


OBJECTS = {
    "a constructor that refuses what it does not know": """
        import torch

        KINDS = ("small", "large")

        class Trainer:
            def __init__(self, options):
                self.kind = str(options.kind)
                if self.kind not in KINDS or options.kind is None:
                    raise ValueError(options.kind)
                if self.kind == "small" or self.kind != "small":
                    raise NotImplementedError
                self.model = torch.nn.Linear(3, 1)
                self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

            def train(self, loader):
                for x in loader:
                    loss = self.model(x).mean()
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
        """,
    "what a constructor makes under the other answer of a flag": """
        import torch

        class Agent:
            def __init__(self, tuned=False):
                self.tuned = tuned
                self.model = torch.nn.Linear(3, 1)
                if self.tuned:
                    self.log_alpha = torch.zeros(1, requires_grad=True)
                    self.alpha_optimizer = torch.optim.Adam([self.log_alpha])

            def update(self, x):
                loss = self.model(x).mean()
                loss.backward()
                if self.tuned:
                    alpha_loss = -(self.log_alpha * loss.detach()).mean()
                    self.alpha_optimizer.zero_grad()
                    alpha_loss.backward()
                    self.alpha_optimizer.step()
        """,
}


@pytest.mark.parametrize("name", OBJECTS)
def test_what_an_object_may_have_been_given_is_not_missing(name: str) -> None:
    assert [kind for kind, _ in gaps(OBJECTS[name]) if kind == "AttributeError"] == []


CALLS = {
    "one too few": ("f(1)", True),
    "one too many": ("f(1, 2, 3, 4)", True),
    "another name": ("f(1, 2, d=3)", True),
    "given twice": ("f(1, 2, a=3)", True),
    "an object's method": ("Adder().add()", True),
    "a constructor": ("Made()", True),
    "all of them": ("f(1, 2)", False),
    "with the default": ("f(1, 2, 3)", False),
    "by name": ("f(b=1, a=2)", False),
    "as many as there are": ("f(*values)", False),
    "whatever there is": ("f(**values)", False),
    "decorated": ("main()", False),
    "bound": ("functools.partial(f, 1)(2)", False),
    "handed on": ("executor.submit(f, 1)", False),
    "the method of an object": ("Adder().add(1)", False),
    "a class with its object": ("Adder.add(Adder(), 1)", False),
    "a hidden base": ("Hidden(1)", False),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_does_not_fit_a_function_of_the_program(name: str) -> None:
    call, raises = CALLS[name]
    program = f"""
        import functools, sys, hidden, torch
        from concurrent.futures import ThreadPoolExecutor
        def f(a, b, c=0):
            return a
        class Adder:
            def add(self, value):
                return value
        class Made:
            def __init__(self, value):
                self.value = value
        class Hidden(hidden.Base):
            pass
        @hidden.main
        def main(settings):
            return settings
        values, executor = sys.argv, ThreadPoolExecutor()
        {call}
        """
    assert gaps(program) == ([("TypeError", 18)] if raises else [])
