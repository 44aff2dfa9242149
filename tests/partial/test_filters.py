"""Containers made of elements that a condition picks which nobody knows: any of them may be missing.

Each way to make one, and to make another of it, is asked in each way what it has. Torch runs the program with every
choice of elements: what some choice passes may not be called certain.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

KEYS = ("a", "b", "c")
CHOICES = [list(chosen) for count in range(3) for chosen in itertools.combinations(KEYS, count)]
HEAD = "import collections, copy, itertools, json, sys\nimport torch\n"
READ = "cfg = json.load(open(sys.argv[1]))\n"
START = "w = torch.ones(3, requires_grad=True)\n"

PICKED = "[k for k in ('a', 'b') if k in cfg]"
TABLE = "{k: 1 for k in ('a', 'b') if k in cfg}"
MADE = {
    "list": f"ks = {PICKED}",
    "set": "ks = {k for k in ('a', 'b') if k in cfg}",
    "dict": f"ks = {TABLE}",
    "copy": f"ks = {PICKED}.copy()",
    "deepcopy": f"ks = copy.deepcopy({PICKED})",
    "list of": f"ks = list({PICKED})",
    "slice": f"ks = {PICKED}[:]",
    "first": f"ks = {PICKED}[:2]",
    "sorted": f"ks = sorted({PICKED})",
    "reversed": f"ks = list(reversed({PICKED}))",
    "tuple": "ks = tuple(k for k in ('a', 'b') if k in cfg)",
    "set of": f"ks = set({PICKED})",
    "frozenset": "ks = frozenset(k for k in ('a', 'b') if k in cfg)",
    "deque": f"ks = collections.deque({PICKED})",
    "sum": f"ks = {PICKED} + ['d']",
    "sum right": f"ks = ['d'] + {PICKED}",
    "star": f"ks = [*{PICKED}, 'd']",
    "star generator": "ks = [*(k for k in ('a', 'b') if k in cfg)]",
    "union": f"ks = set({PICKED}) | {{'d'}}",
    "difference": f"ks = {{'a', 'b'}} - set({PICKED})",
    "intersection": f"ks = {{'a', 'b'}} & set({PICKED})",
    "symmetric": f"ks = {{'b', 'c'}} ^ set({PICKED})",
    "times": f"ks = {PICKED} * 2",
    "keys": f"ks = {TABLE}.keys()",
    "dict of": f"ks = dict({TABLE})",
    "dict copy": f"ks = {TABLE}.copy()",
    "dict star": f"ks = {{**{TABLE}, 'd': 1}}",
    "dict union": f"ks = {TABLE} | {{'d': 1}}",
    "fromkeys": f"ks = dict.fromkeys({PICKED})",
    "zipped": f"ks = dict(zip({PICKED}, [1, 2]))",
    "counter": f"ks = collections.Counter({PICKED})",
    "filter": "ks = list(filter(lambda k: k in cfg, ('a', 'b')))",
    "filterfalse": "ks = list(itertools.filterfalse(lambda k: k in cfg, ('a', 'b')))",
    "compress": "ks = list(itertools.compress(('a', 'b'), ['a' in cfg, 'b' in cfg]))",
    "chain": f"ks = list(itertools.chain({PICKED}, ('d',)))",
    "islice": f"ks = list(itertools.islice({PICKED}, 2))",
    "map": f"ks = list(map(str, {PICKED}))",
    "enumerate": f"ks = [k for _, k in enumerate({PICKED})]",
    "nested": f"ks = [j for j in {PICKED}]",
    "twice": f"ks = list(tuple(set({PICKED})))",
    "star map": f"ks = [*map(str, {PICKED})]",
    "set of map": f"ks = set()\nks.update(map(str, {PICKED}))",
    "union of iterator": f"ks = set().union(iter({PICKED}))",
    "counter of map": f"ks = collections.Counter(map(str, {PICKED}))",
    "of a generator": "ks = [k for k in (k for k in ('a', 'b') if k in cfg)]",
    "filter of a generator": "ks = list(filter(None, (k for k in ('a', 'b') if k in cfg)))",
    "chain of a generator": "ks = list(itertools.chain((k for k in ('a', 'b') if k in cfg), ('d',)))",
    "handed on": "def taken(some):\n    return [k for k in some]\nks = taken(k for k in ('a', 'b') if k in cfg)",
    "and in place": f"ks = {{'a', 'b'}}\nks &= set({PICKED})",
    "less in place": f"ks = {{'a', 'b'}}\nks -= set({PICKED})",
    "either in place": f"ks = {{'b', 'c'}}\nks ^= set({PICKED})",
    "intersected": f"ks = {{'a', 'b'}}\nks.intersection_update({PICKED})",
    "appended": f"ks = {PICKED}\nks.append('d')",
    "extended": f"ks = []\nks.extend({PICKED})",
    "added": f"ks = []\nks += {PICKED}",
    "updated": f"ks = {{}}\nks.update({TABLE})",
    "set updated": f"ks = set()\nks.update({PICKED})",
}
ASKED = {
    "in": "x = w if 'a' in ks else torch.zeros(3)\nx.sum().backward()",
    "not in": "x = w * 2\nif 'a' not in ks:\n    x = x.detach()\nx.sum().backward()",
    "both": "loss = (w * w).sum()\nif 'a' in ks:\n    loss.backward()\nif 'b' in ks:\n    loss.backward()",
    "each": "loss = (w * w).sum()\nfor k in ('a', 'b'):\n    if k in ks:\n        loss.backward()",
    "loop": "loss = (w * w).sum()\nfor k in ks:\n    loss.backward()",
    "empty": "x = torch.zeros(3)\nif ks:\n    x = w * 2\nx.sum().backward()",
    "length": "x = w * 2\nif len(ks) == 2:\n    x = x.detach()\nx.sum().backward()",
    "equal": "x = w * 2\nif sorted(ks) == ['a', 'b']:\n    x = x.detach()\nx.sum().backward()",
    "count": "x = w * 2\nif list(ks).count('a'):\n    x = x.detach()\nx.sum().backward()",
    "subset": "x = w * 2\nif {'a'} <= set(ks):\n    x = x.detach()\nx.sum().backward()",
    "any": "x = w * 2\nif any(k == 'a' for k in ks):\n    x = x.detach()\nx.sum().backward()",
}
LOSSES = "held = {k: (w * w).sum() for k in ('a', 'b') if k in cfg}\n"
CONSTANTS = "held = {k: (w * w).sum().detach() for k in ('a', 'b') if k in cfg}\n"
TAKEN = {
    "get": LOSSES + "x = held.get('a', w.sum().detach())\nx.backward()",
    "get and pop": LOSSES
    + "x = held.get('a')\nif x is not None:\n    x.backward()\nheld.pop('a', (w * 1).sum()).backward()",
    "setdefault": CONSTANTS + "held.setdefault('a', (w * w).sum()).backward()",
    "pop": CONSTANTS + "held.pop('a', (w * w).sum()).backward()",
    "asked first": LOSSES + "if 'a' in held:\n    held.get('a', w.sum().detach()).backward()",
    "one element": "loss = (w * w).sum()\nfor k in [k for k in ('a',) if k in cfg]:\n    loss.backward()",
}


def passes(program: str, cfg: list[str]) -> bool:
    """Whether torch runs a program to its end with some elements."""
    names: dict[str, object] = {"cfg": cfg}
    try:
        exec(compile(HEAD + START + program, "program.py", "exec"), names)
    except (RuntimeError, ValueError):
        return False
    return True


def certain(program: str) -> list[str]:
    """The errors that are called certain in a program that reads its elements from a file."""
    findings = check(from_text(HEAD + READ + START + program + "\n", "program.py")).findings
    return [finding.code for finding in findings if finding.certain and finding.severity == "error"]


RIGHT = {
    "the last one frees": "for i, o in enumerate(outs):\n    o.backward(retain_graph=i < len(outs) - 1)",
    "not the last": "for i, o in enumerate(outs):\n    o.backward(retain_graph=i != len(outs) - 1)",
    "counted first": "last = len(outs) - 1\nfor i, o in enumerate(outs):\n    o.backward(retain_graph=i < last)",
    "counted down": "left = len(outs)\nfor o in outs:\n    left -= 1\n    o.backward(retain_graph=left > 0)",
    "all at once": "if outs:\n    sum(outs).backward()",
    "all but one": "for o in outs[:-1]:\n    o.backward(retain_graph=True)\nif outs:\n    outs[-1].backward()",
    "one after the other": "while len(outs) > 1:\n    outs.pop().backward(retain_graph=True)\n"
    "for o in outs:\n    o.backward()",
    "left where there is none": "if len(outs) > 0:\n    torch.stack(outs).sum().backward()",
}
TOLD = {
    "frozen": "for one in [nets[k] for k in nets if k in cfg]:\n    one.requires_grad_(False)\n"
    "nets['a'](torch.ones(2, 3)).sum().backward()",
    "each walks the same": "for o in outs:\n    o.backward()",
    "detached": "for o in [o.detach() for o in outs]:\n    o.backward()",
}
OUTS = """\
t = (w * w).sum()
nets = {k: torch.nn.Linear(3, 1) for k in ('a', 'b')}
outs = [t * n for n, k in enumerate(('a', 'b', 'c'), 1) if k in cfg]
"""


@pytest.mark.parametrize("right", RIGHT)
def test_what_runs_with_all_elements_is_not_accused(right: str) -> None:
    program = OUTS + RIGHT[right]
    assert all(passes(program, cfg) for cfg in CHOICES)
    assert check(from_text(HEAD + READ + START + program + "\n", "program.py")).findings == []


@pytest.mark.parametrize("told", TOLD)
def test_what_some_elements_make_raise_is_told(told: str) -> None:
    program = OUTS + TOLD[told]
    assert not all(passes(program, cfg) for cfg in CHOICES)
    assert "error" in [one.severity for one in check(from_text(HEAD + READ + START + program + "\n", "p.py")).findings]


@pytest.mark.parametrize("made", MADE)
def test_what_some_elements_pass_is_not_certain(made: str) -> None:
    wrong, raising, told = {}, 0, 0
    for asked, use in ASKED.items():
        program = f"{MADE[made]}\n{use}"
        ran = [passes(program, cfg) for cfg in CHOICES]
        findings = check(from_text(HEAD + READ + START + program + "\n", "program.py")).findings
        errors = [finding for finding in findings if finding.severity == "error"]
        if any(ran) and any(finding.certain for finding in errors):
            wrong[asked] = [finding.code for finding in errors]
        raising += not all(ran)
        told += bool(errors) and not all(ran)
    assert not wrong
    assert told >= 0.7 * raising


@pytest.mark.parametrize("taken", TAKEN)
def test_what_is_taken_may_be_the_default(taken: str) -> None:
    program = TAKEN[taken]
    assert any(passes(program, cfg) for cfg in CHOICES)
    assert not certain(program)


@pytest.mark.parametrize("asked", ASKED)
def test_what_all_elements_are_known_of_is_certain(asked: str) -> None:
    """The same questions where nothing is picked: what raises is told."""
    for chosen in (["a", "b"], ["a"], []):
        program = f"ks = {chosen}\n{ASKED[asked]}"
        assert bool(certain(program)) != passes(program, [])
