"""Losses that are kept under keys which hidden code says: whether they are others each time is not known.

Torch runs each program with hidden code that always names the same, that names a few things in turn, and that names
another thing each time. What keeps all graphs with some of it is possible, what does with all of it may be certain.
"""

from __future__ import annotations

import itertools
import types
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

PROGRAM = """\
import torch
import hidden
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
kept = {{}}
for i, (name, x) in enumerate(hidden.loader()):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {stored}
"""
KEYS = (
    "name", "str(name)", "(name, 0)", "(name, i)", "(i, name)", "hidden.key(x)", "f'loss of {name}'", "i", "f'{i}'",
    "(0, 1)", "i % 2", "i % hidden.few", "i * hidden.few", "hidden.few", "(hidden.key(x), name)", "(name, len(kept))",
)  # fmt: skip
WAYS = {
    "item": "kept[{key}] = loss",
    "update": "kept.update({{{key}: loss}})",
    "default": "kept.setdefault({key}, loss)",
    "record": "kept[{key}] = (loss, i)",
    "named": "key = {key}\n    kept[key] = loss * 2",
}
NAMES = {"one": lambda: itertools.repeat("a"), "few": lambda: itertools.cycle("ab"), "new": lambda: itertools.count(7)}


def graphs(text: str, names: str, few: int, batches: int) -> int:
    """Return how many graphs are kept after so many batches."""
    named, keys = NAMES[names](), NAMES[names]()
    hidden = types.SimpleNamespace(
        few=few, key=lambda x: next(keys), loader=lambda: ((next(named), torch.ones(4, 2)) for _ in range(batches))
    )
    ran: dict[str, Any] = {"hidden": hidden}
    exec(compile(text.replace("import hidden\n", ""), "t.py", "exec"), ran)
    held = (value[0] if isinstance(value, tuple) else value for value in ran["kept"].values())
    return len({value.grad_fn for value in held})


@pytest.mark.parametrize("key", KEYS)
def test_what_is_kept_under_keys(key: str) -> None:
    for way in WAYS.values():
        text = PROGRAM.format(stored=way.format(key=key))
        grows = {graphs(text, names, few, 6) > graphs(text, names, few, 3) for names in NAMES for few in (2, 10**6)}
        found = [one.certain for one in check(from_text(text, "t.py")).findings if one.code == "TAPE201"]
        assert bool(found) == (True in grows), text
        assert not any(found) or False not in grows, text


@pytest.mark.parametrize("stored", ["net(torch.ones(2))", "w * 2", "[w * 2, 3][0]"])
def test_a_hidden_name_may_be_that_of_an_attribute(stored: str) -> None:
    """Where the name is `loss`, the backward has a graph to walk; where it is another one, it has none."""
    program = (
        "import torch\nfrom hidden import name\n\nnet = torch.nn.Linear(2, 1)\n"
        "w = torch.ones(1, requires_grad=True)\n\n\n"
        f"class Held:\n    pass\n\n\nheld = Held()\nheld.loss = torch.ones(1)\nsetattr(held, name, {stored})\n"
        "held.loss.backward()\n"
    )
    raised = []
    for name in ("loss", "other"):
        try:
            exec(program.replace("from hidden import name", f"name = {name!r}"), {})
        except RuntimeError:
            raised.append(name)
    assert raised == ["other"]
    found = check(from_text(program, "train.py")).findings
    assert not any(one.code == "TAPE103" and one.certain for one in found)


REPLACED = (
    "kept[hidden.key(i)] = 0",
    "kept[name] = 0",
    "for key, one in hidden.pairs(i):\n        kept[key] = one",
    "for key in hidden.keys(i):\n        kept[key] = 0",
    "for key in hidden.keys(i):\n        kept.pop(key, None)",
    "kept.update({hidden.key(i): 0})",
    "kept.update(hidden.pairs(i))",
    "kept |= hidden.pairs(i)",
    "kept.pop(hidden.key(i), None)",
    "kept.pop(name, None)",
    "kept.update({key: one for key, one in hidden.pairs(i)})",
    "if name in kept:\n        del kept[name]",
    "kept = {**kept, **dict(hidden.pairs(i))}",
    "kept[hidden.key(i)] = torch.zeros(2)",
)
"""What stores over an entry by a key that hidden code says, or takes it out."""


@pytest.mark.parametrize("own", ["i", "str(i)", "f'{i}'"])
@pytest.mark.parametrize("replaced", REPLACED)
def test_hidden_keys_may_be_those_that_the_program_stores_under(replaced: str, own: str) -> None:
    text = PROGRAM.format(stored=f"kept[{own}] = loss\n    {replaced}")
    kind = int if own == "i" else str
    kept = []
    for same in (True, False):
        key = (lambda i: kind(i)) if same else (lambda i: f"another {i}")
        hidden = types.SimpleNamespace(
            key=key,
            keys=lambda i, key=key: [key(i)],
            pairs=lambda i, key=key: {key(i): 0}.items() if "|=" not in replaced else {key(i): 0},
            loader=lambda key=key: ((key(i), torch.ones(4, 2)) for i in range(5)),
        )
        ran: dict[str, Any] = {"hidden": hidden}
        exec(compile(text.replace("import hidden\n", ""), "t.py", "exec"), ran)
        kept.append(sum(getattr(one, "grad_fn", None) is not None for one in ran["kept"].values()))
    assert kept == [0, 5]
    assert not any(one.code == "TAPE201" and one.certain for one in check(from_text(text, "t.py")).findings), text
