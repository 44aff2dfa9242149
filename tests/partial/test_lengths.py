"""How long something is that code which is not visible has made, or may have changed since.

Each kind of thing is asked in each way how long it is, before, in and behind a loop over it, and by what the loop has
counted. Torch runs the programs with several lengths: what one of them passes may not be called certain, and what all
of them come to is still said.
"""

from __future__ import annotations

import itertools
import sys
import types

import pytest

from tapecheck.check import check, faults_of
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

HEAD = """\
import torch
import hidden
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler, Subset, TensorDataset
w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
"""
OWN = """\
class Own(Dataset):
    def __init__(self):
        self.rows = hidden.rows
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, at):
        return self.rows[at]
"""
ROWS = "rows = [torch.zeros(1)] * 3\n"
DATA = "data = TensorDataset(torch.zeros(3))\n"
SOURCES = {
    "loader of hidden data": "xs = DataLoader(hidden.data, 1)",
    "hidden loader": "xs = hidden.loader",
    "made": "xs = hidden.make()",
    "loader of what is made": "xs = DataLoader(hidden.make().dataset, batch_size=1, shuffle=True)",
    "own dataset": f"{OWN}xs = DataLoader(Own(), 1)",
    "tensor dataset": "xs = DataLoader(TensorDataset(hidden.rows), 1)",
    "subset": "xs = DataLoader(Subset(hidden.data, range(hidden.n)), 1)",
    "concat": "xs = DataLoader(ConcatDataset([hidden.data]), 1)",
    "drawn": "xs = DataLoader(hidden.data, 1, sampler=RandomSampler(hidden.data))",
    "drawn together": "xs = DataLoader(hidden.data, batch_sampler=BatchSampler(RandomSampler(hidden.data), 1, False))",
    "batches of a hidden size": "xs = DataLoader(TensorDataset(torch.zeros(12)), batch_size=hidden.batch)",
    "list of": "xs = list(hidden.loader)",
    "tuple of": "xs = tuple(hidden.loader)",
    "comprehension": "xs = [x for x in hidden.loader]",
    "filled": "xs = []\nfor x in hidden.loader:\n    xs.append(x)",
    "range": "xs = range(hidden.n)",
    "list of a range": "xs = list(range(hidden.n))",
    "rows": "xs = hidden.rows",
    "slice": "xs = hidden.rows[:]",
    "dict": "xs = {i: x for i, x in enumerate(hidden.loader)}",
    "times": "xs = [0] * hidden.n",
    "tensor": "xs = torch.zeros(hidden.n)",
    "zipped": "xs = list(zip(hidden.loader, hidden.loader))",
    "numbered": "xs = list(enumerate(hidden.loader))",
    "given list": "xs = [0, 1, 2]\nhidden.refill(xs)",
    "given dataset": f"{DATA}hidden.redo(data)\nxs = data",
    "loader of a given dataset": f"{DATA}hidden.redo(data)\nxs = DataLoader(data)",
    "given loader": f"{DATA}xs = DataLoader(data)\nhidden.redo(xs.dataset)",
    "loader of a given list": f"{ROWS}hidden.refill(rows)\nxs = DataLoader(rows)",
    "list that a loader goes over": f"{ROWS}xs = DataLoader(rows)\nhidden.refill(rows)",
}
AGAIN = "    loss.backward()"
HOLDS = {
    "it is 12": "len(xs) == 12",
    "it is 3": "len(xs) == 3",
    "half of it": "len(xs) // 2 == 6",
    "more": "len(xs) > 7",
    "fewer": "len(xs) < 7",
    "fewer than 20": "len(xs) < 20",
    "not 5": "len(xs) != 5",
    "even": "len(xs) % 2 == 0",
    "odd": "len(xs) % 2",
    "by three": "len(xs) % 3 == 0",
    "none left": "not len(xs) - 3",
    "its text": "str(len(xs)) == '12' or f'{len(xs)}' == '3'",
}
LATER = {
    "counted": f"c = 0\nfor x in xs:\n    c += 1\nif c in (3, 12):\n{AGAIN}",
    "asked and counted": f"c = 0\nn = len(xs)\nfor x in xs:\n    c += 1\nif c == 12 or c == 3 and n:\n{AGAIN}",
    "the last one": f"for i, x in enumerate(xs):\n    pass\nif i in (2, 11) and len(xs):\n{AGAIN}",
    "two epochs": f"c = 0\nfor e in range(2):\n    for i in range(len(xs)):\n        c += 1\nif c in (6, 24):\n{AGAIN}",
    "over all epochs": "for e in range(2):\n    for i, x in enumerate(xs):\n        if e * len(xs) + i == 12:\n"
    f"        {AGAIN}",
    "far in": f"n = len(xs)\nfor i, x in enumerate(xs):\n    if i > 7 and n:\n    {AGAIN}",
    "the sixth": f"for i in range(len(xs)):\n    if i == 5:\n    {AGAIN}",
    "the middle": f"for i, x in enumerate(xs):\n    if i == len(xs) // 2 and i == 6:\n    {AGAIN}",
    "while": f"c = 0\nwhile c < len(xs):\n    c += 1\nif c in (3, 12):\n{AGAIN}",
    "far in a while": f"c = 0\nwhile c < len(xs):\n    c += 1\n    if c == 9:\n    {AGAIN}",
    "kept": f"kept = []\nfor x in xs:\n    kept.append(1)\nif len(kept) in (3, 12):\n{AGAIN}",
    "sum": f"if sum(1 for x in xs) in (3, 12):\n{AGAIN}",
    "retained": "loss = (w * w).sum()\nn = len(xs)\nfor i in range(3):\n    loss.backward(retain_graph=n > 5)",
}
EVERY = {
    "the last": f"for i, x in enumerate(xs):\n    if i == len(xs) - 1:\n    {AGAIN}",
    "the last, asked before": f"n = len(xs)\nfor i, x in enumerate(xs):\n    if i + 1 == n:\n    {AGAIN}",
    "each": f"for x in xs:\n{AGAIN}",
}
LENGTHS = (3, 4, 5, 12, 13, 24, 40)


def _hidden(count: int) -> types.ModuleType:
    """Return the module that is not visible, with as many of everything."""
    rows = torch.zeros(count, 1)
    data = torch.utils.data.TensorDataset(rows)
    made = types.ModuleType("hidden")

    def refill(xs: list[object]) -> None:
        xs[:] = range(count)

    def redo(dataset: torch.utils.data.TensorDataset) -> None:
        dataset.tensors = (rows,)

    made.__dict__.update(
        rows=rows, data=data, n=count, batch=max(1, -(-12 // count)), refill=refill, redo=redo,
        loader=torch.utils.data.DataLoader(data, 1), make=lambda: torch.utils.data.DataLoader(data, 1),
    )  # fmt: skip
    return made


def _passes(text: str, count: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setitem(sys.modules, "hidden", _hidden(count))
    try:
        exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
    except RuntimeError:
        return False
    return True


def _is_sure(text: str) -> bool:
    found = check(from_text(text, "program.py")).findings
    return any(one.certain and one.severity in ("error", "warning") for one in found)


def _programs(source: str) -> dict[str, str]:
    head = f"{HEAD}{SOURCES[source]}\n"
    return {
        **{name: f"{head}if {test}:\n{AGAIN}\n" for name, test in HOLDS.items()},
        **{f"{name}, after": f"{head}for x in xs:\n    pass\nif {test}:\n{AGAIN}\n" for name, test in HOLDS.items()},
        **{name: f"{head}{step}\n" for name, step in LATER.items()},
    }


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_is_certain_that_some_length_passes(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = _programs(source)
    passed = {name for name, text in programs.items() if any(_passes(text, one, monkeypatch) for one in LENGTHS)}
    assert passed, "each length raises"
    assert {name for name in passed if _is_sure(programs[name])} == set()


@pytest.mark.parametrize("source", ["loader of hidden data", "own dataset", "made", "list of", "comprehension"])
@pytest.mark.parametrize("step", EVERY)
def test_what_each_length_comes_to_is_certain(source: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{HEAD}{SOURCES[source]}\n{EVERY[step]}\n"
    assert not any(_passes(text, one, monkeypatch) for one in LENGTHS)
    assert _is_sure(text)


NET = """\
import contextlib
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(2, 3)
"""
TRAINED = "    loss = net(x).exp().sum()\n    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"
SILENT = {
    "cleared": "for e in range(3):\n    net(x).sum().backward()\n    opt.step()\n    if {}:\n        opt.zero_grad()\n",
    "stepped": "for e in range(3):\n    net(x).sum().backward()\n    if {}:\n        opt.step()\n    opt.zero_grad()\n",
    "kept": "kept = []\nfor e in range(4):\n" + TRAINED + "    kept.append(loss if {} else loss.item())\n",
    "retained": "for e in range(3):\n    loss = net(x).exp().sum()\n    opt.zero_grad()\n"
    "    loss.backward(retain_graph=True)\n    if {}:\n        loss.backward()\n    opt.step()\n",
    "detached": "for e in range(3):\n    h = net[0](x)\n    h = h.detach() if {} else h\n    opt.zero_grad()\n"
    "    net[2](h.tanh()).sum().backward()\n    opt.step()\n",
    "given": "opt = torch.optim.SGD(net.parameters() if {} else net[2].parameters(), lr=0.1)\nfor e in range(3):\n"
    + TRAINED,
    "evaluated": "for e in range(2):\n" + TRAINED + "total = 0\n"
    "with torch.no_grad() if {} else contextlib.nullcontext():\n    for e in range(3):\n"
    "        total += net(x).sum().item()\n",
}


@pytest.mark.parametrize("source", ["loader of hidden data", "filled", "tuple of", "times"])
@pytest.mark.parametrize("step", SILENT)
def test_what_some_lengths_do_not_do_is_not_certain(step: str, source: str) -> None:
    wrong = []
    for name, loop in itertools.product(("it is 12", "more", "not 5", "odd"), ("", "for row in xs:\n    pass\n")):
        for test in (HOLDS[name], f"not ({HOLDS[name]})"):
            text = f"{HEAD}{SOURCES[source]}\n{NET}{loop}{SILENT[step].format(test)}"
            if any(one.certain for one in check(from_text(text, "program.py")).findings if one.code != "TAPE101"):
                wrong.append((test, bool(loop)))
    assert wrong == []


def test_a_note_says_which_length_is_assumed() -> None:
    text = f"{HEAD}for x in hidden.loader:\n    pass\nif len(hidden.loader) == 3:\n{AGAIN}\n"
    notes = [note for one in check(from_text(text, "program.py")).findings for note in one.notes]
    assert any("`len(hidden.loader) == 3` is true" in note for note in notes)


def test_what_has_as_many_elements_is_as_long() -> None:
    text = f"{HEAD}xs = hidden.rows\nys = [x + 1 for x in xs]\nif len(xs) != len(ys):\n{AGAIN}\n"
    assert not check(from_text(text, "program.py")).findings


@pytest.mark.parametrize(
    "test",
    [
        "len(xs) * 10**400 > 10**401",
        "len(xs) * 1e308 * 10 > 10**400",
        "len(xs) / 10**30 == 10**400",
        "xs.n < -(10**400)",
    ],
)
def test_numbers_that_no_float_holds_are_compared(test: str) -> None:
    text = f"{HEAD}xs = hidden.make()\nif {test}:\n    loss.backward()\nloss.backward()\n"
    report = check(from_text(text, "run.py"))
    assert not faults_of(report)
    assert {finding.span.line for finding in report.findings} >= {10}


@pytest.mark.parametrize("pieces", ["range(0, len(xs) - 9, 8)", "range(len(xs) // 8)", "range(1, len(xs))", "xs"])
def test_a_loop_over_what_nobody_knows_goes_round_twice(pieces: str) -> None:
    text = f"{HEAD}{NET}xs = hidden.make()\nh = torch.zeros(2, 3)\n"
    text += f"for at in {pieces}:\n    h = torch.tanh(net[0](h)) @ torch.ones(4, 3)\n    h.sum().backward()\n"
    (found,) = [one for one in check(from_text(text, "run.py")).findings if one.severity == "error"]
    assert found.code == "TAPE101"
    assert found.certain


@pytest.mark.parametrize("size", ["len(data)", "size", "len(data), drop_last=True", "len(data), shuffle=True"])
@pytest.mark.parametrize(
    "data", ["hidden.data()", "TensorDataset(hidden.rows())", "Subset(hidden.data(), hidden.picked())"]
)
def test_a_batch_of_all_samples_is_the_only_one(data: str, size: str) -> None:
    text = f"{HEAD}{NET}data = {data}\nsize = len(data)\nh = torch.zeros(2, 3)\n"
    text += f"for batch in DataLoader(data, batch_size={size}):\n"
    text += "    h = torch.tanh(net[0](h)) @ torch.ones(4, 3)\n    h.sum().backward()\n"
    assert not check(from_text(text, "run.py")).findings
    found = check(from_text(text.replace(f"batch_size={size}", "batch_size=4"), "run.py")).findings
    assert [one.code for one in found] == ["TAPE101"]


@pytest.mark.parametrize("part", ["[:1]", "[-1:]", "[2:3]", "[-2:-1]", "[:0]", "[:2]", "[1:]", "[::2]", "[-3:]"])
def test_a_slice_has_no_more_elements_than_it_takes(part: str) -> None:
    several = len(eval(f"range(9){part}")) > 1
    text = f"{HEAD}{NET}out = net(x).exp().sum()\nfor one in hidden.make(){part}:\n    out.backward()\n"
    assert [one.code for one in check(from_text(text, "run.py")).findings] == ["TAPE101"] * several


COMPUTED = {
    "last": "xs[len(xs) - 1:]",
    "last, by name": "xs[n - 1:]",
    "last, both ends": "xs[n - 1:len(xs)]",
    "after the thirds": "xs[n - n % 3:]",
    "after the fourths": "xs[n // 4 * 4:]",
    "first of all": "xs[::len(xs)]",
    "up to one": "xs[:n // n]",
    "from the end": "xs[-(n // n):]",
    "last number": "range(n - 1, n)",
    "last number of both": "range(len(xs) - 1, len(xs))",
    "one step": "range(0, n, n)",
    "below zero": "range(-n, 1 - n)",
    "odd": "range(n % 2)",
    "left over": "range(n % 5)",
    "least": "range(min(n, 1))",
    "none": "range(n - n)",
    "one": "range(n - len(xs) + 1)",
    "whole": "range(int(n / n))",
    "rounded": "range(round(n / n))",
    "power": "range(n ** 0)",
    "difference": "range(abs(n - n - 1))",
    "truth": "range(int(n > 0))",
    "bit": "range(n & 1)",
    "digits": "range(len(str(n)))",
    "letters": "str(n)",
    "text": "f'{n}'",
    "numbered": "enumerate(range(n - 1, n))",
    "pairs": "zip(range(n - 1, n), range(n))",
    "repeated": "[0] * (n // n)",
    "listed": "[i for i in range(n - 1, n)]",
    "kept": "{i: 0 for i in range(n - 1, n)}",
    "last of a list": "list(range(n))[n - 1:]",
    "backwards": "list(reversed(range(n)))[n - 1:]",
    "index from the end": "range(range(n)[-1], n)",
    "iterated": "itertools.islice(xs, n - 1, n)",
    "iterated to the end": "itertools.islice(xs, n - 1, None)",
    "tensor": "torch.zeros(n // n, 2)",
    "numbers": "torch.arange(n - 1, n)",
    "rows": "torch.zeros(n, 2)[n - 1:]",
    "another shape": "torch.zeros(n, 2).view(-1, 2 * n)",
    "sizes": "range(torch.zeros(n, 2).shape[0] - n + 1)",
    "split": "torch.arange(n).split(n)",
    "split by a function": "torch.split(torch.arange(n), n)",
    "split in two": "torch.arange(n).split(n // 2 + 1)",
    "split drawn": "torch.randperm(n).split(len(xs))",
    "split stacked": "torch.stack(list(torch.zeros(n))).split(n)",
    "chunk": "torch.arange(n).chunk(n // n)",
    "taken apart": "torch.zeros(n // n, 2).unbind()",
    "one batch": "DataLoader(range(n), batch_size=n)",
    "one batch of tensors": "DataLoader(TensorDataset(torch.zeros(n, 1)), batch_size=len(xs))",
    "batches of indices": "BatchSampler(RandomSampler(range(n)), n, False)",
    "drawn once": "RandomSampler(range(n), num_samples=n // n)",
}
ROUNDS = {"a graph": "out = (w * w).sum()", "a graph that is freed": "out = loss"}


@pytest.mark.parametrize("source", ["rows", "slice", "made", "loader of hidden data", "own dataset"])
def test_what_is_worked_out_from_a_length_decides_nothing(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = []
    head = f"{HEAD}import itertools\n{SOURCES[source]}\nn = len(xs)\n"
    for (name, form), (graph, out) in itertools.product(COMPUTED.items(), ROUNDS.items()):
        text = f"{head}{out}\nfor part in {form}:\n    out.backward()\n"
        if source not in ("rows", "slice") and "xs[" in form:
            continue
        if _is_sure(text) and any(_passes(text, one, monkeypatch) for one in LENGTHS):
            wrong.append((name, graph))
    assert wrong == []


@pytest.mark.parametrize("source", ["rows", "slice"])
@pytest.mark.parametrize(
    "form", ["xs[len(xs) - 1:]", "xs[::n]", "range(n - 1, n)", "range(0, n, n)", "torch.randperm(n).split(n)"]
)
def test_what_has_one_element_however_many_there_are_goes_round_once(form: str, source: str) -> None:
    text = f"{HEAD}{SOURCES[source]}\nn = len(xs)\nout = (w * w).sum()\nfor part in {form}:\n    out.backward()\n"
    assert not check(from_text(text, "run.py")).findings


LISTS = ["list of", "tuple of", "comprehension", "filled", "times", "zipped", "numbered"]
PARTS = ["last, both ends", "first of all", "up to one", "iterated", "one batch", "last of a list"]


@pytest.mark.parametrize("source", LISTS)
def test_a_part_of_a_list_is_as_long_as_the_list_says(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head = f"{HEAD}import itertools\n{SOURCES[source]}\nn = len(xs)\nout = (w * w).sum()\n"
    forms = PARTS if source == "filled" else [*PARTS, "last", "last, by name", "from the end", "iterated to the end"]
    texts = {name: f"{head}for part in {COMPUTED[name]}:\n    out.backward()\n" for name in forms}
    assert {name for name, text in texts.items() if any(_passes(text, one, monkeypatch) for one in LENGTHS)} == {*forms}
    assert {name for name, text in texts.items() if _is_sure(text)} == set()


@pytest.mark.parametrize("source", LISTS)
@pytest.mark.parametrize("part", ["xs[1:]", "xs[:-1]", "xs[n // 2 - 3:]", "xs[::2]", "xs"])
def test_a_part_that_grows_with_its_list_goes_round_twice(part: str, source: str) -> None:
    text = f"{HEAD}{SOURCES[source]}\nn = len(xs)\nout = (w * w).sum()\nfor part in {part}:\n    out.backward()\n"
    (found,) = [one for one in check(from_text(text, "run.py")).findings if one.severity == "error"]
    assert (found.code, found.certain) == ("TAPE101", True)


@pytest.mark.parametrize("source", ["list of", "comprehension"])
@pytest.mark.parametrize("part", ["[2:5]", "[-5:-2]", "[::7]", "[10:0:-3]"])
def test_a_part_between_written_numbers_goes_round_twice(part: str, source: str) -> None:
    head = f"{HEAD}{SOURCES[source]}\nout = (w * w).sum()\nys = xs{part}\n"
    for loop in ("for y in ys", "for i in range(len(ys))"):
        found = check(from_text(f"{head}{loop}:\n    out.backward()\n", "run.py")).findings
        assert [one.code for one in found] == ["TAPE101"], (loop, part)


SHARES = [
    "xs[int(n * 0.8):]", "xs[n * 9 // 10:]", "xs[-int(n * 0.2):]", "xs[-(n // 5):]", "xs[n // 2:]", "range(n // 64)",
    "xs[n // 2:][:n // 4]", "xs[int(n * 0.8):int(n * 0.9)]", "range(int(n * 0.8), n)", "range(n - n // 5, n)",
    "[xs[i] for i in range(int(n * 0.7), n)]", "zip(xs[int(n * 0.8):], xs)", "torch.randperm(n)[int(n * 0.8):]",
]  # fmt: skip


@pytest.mark.parametrize("source", ["list of", "comprehension", "rows", "tuple of"])
def test_a_share_of_what_nobody_knows_the_length_of_goes_round_twice(source: str) -> None:
    head = f"{HEAD}{SOURCES[source]}\nn = len(xs)\nout = (w * w).sum()\n"
    quiet = {one for one in SHARES if not _is_sure(f"{head}for part in {one}:\n    out.backward()\n")}
    assert quiet == set()


@pytest.mark.parametrize("size", [64, 2_048, 16_384, 50_000])
def test_a_range_that_few_elements_leave_empty_is_gone_over(size: int) -> None:
    head = f"{HEAD}{SOURCES['list of']}\nn = len(xs)\nout = (w * w).sum()\n"
    (found,) = check(from_text(f"{head}for part in range(n // {size}):\n    out.backward()\n", "run.py")).findings
    assert found.code == "TAPE101"
