"""How long loaders, datasets and samplers of torch are: random ones, whose lengths and batches torch itself counts.

A program walks a graph twice where something has a length: that is an error for certain where it is the one that torch
says, and none where it is another.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.interpret import limits
from tapecheck.source import from_text
from tests.cases import under_torch

HEAD = """\
import torch
from torch.utils.data import (
    BatchSampler, ConcatDataset, DataLoader, Dataset, RandomSampler, SequentialSampler, Subset, SubsetRandomSampler,
    TensorDataset, WeightedRandomSampler, random_split,
)
from torch.utils.data.distributed import DistributedSampler


class Squares(Dataset):
    def __init__(self, count):
        self.numbers = list(range(count))

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        return torch.ones(2) * self.numbers[index], 1.0


"""
TWICE = """
w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
if {value} == {count}:
    loss.backward()
"""
COUNTED = """
count = 0
for batch in {value}:
    count += 1
"""


def dataset(draw: random.Random, depth: int = 2) -> str:
    """Return an expression for a dataset of 1 to 40 samples, or of parts of them."""
    count = draw.randint(6, 40)
    kind = draw.randrange(8 if depth else 3)
    if kind == 0:
        return f"TensorDataset(torch.randn({count}, 2), torch.randn({count}))"
    if kind == 7:
        part = f"{draw.choice(('', 2, -30))}:{draw.choice(('', 5, 30, -1))}{draw.choice(('', ':2', ':1', ', :1'))}"
        return f"TensorDataset(torch.randn({count}, 2)[{part}])"
    if kind == 1:
        return f"Squares({count})"
    if kind == 2:
        return f"list(range({count}))"
    inner = dataset(draw, depth - 1)
    if kind == 3:
        return f"Subset({dataset(draw, 0)}, range({draw.randint(1, 6)}))"
    if kind == 4:
        shares = draw.choice(("0.8, 0.2", "0.5, 0.3, 0.2", "0.25, 0.25, 0.5"))
        return f"random_split({inner}, [{shares}])[{draw.randint(0, 1)}]"
    if kind == 5:
        return f"random_split(Squares({count}), [{count - 5}, 5])[{draw.randint(0, 1)}]"
    return f"ConcatDataset([{inner}, {dataset(draw, depth - 1)}])"


def loader(draw: random.Random) -> str:
    """Return an expression for a loader, of a sampler or not."""
    data, size, drop = dataset(draw), draw.randint(1, 9), draw.choice(("", ", drop_last=True", ", drop_last=False"))
    kind = draw.randrange(9)
    if kind < 3:
        return (
            f"DataLoader({data}, {draw.choice(('', 'batch_size='))}{size}{drop}{draw.choice(('', ', num_workers=0'))})"
        )
    if kind == 3:
        return f"DataLoader({data}, batch_size=None)"
    if kind == 4:
        replicas = draw.randint(2, 4)
        share = f"DistributedSampler(data, num_replicas={replicas}, rank=1{draw.choice(('', ', drop_last=True'))})"
        return f"[DataLoader(data, {size}, sampler={share}{drop}) for data in [{data}]][0]"
    if kind == 5:
        drawn = draw.choice(("RandomSampler(data, num_samples=7)", "SequentialSampler(data)", "RandomSampler(data)"))
        return f"[DataLoader(data, {size}, sampler={drawn}{drop}) for data in [{data}]][0]"
    if kind == 6:
        drawn = draw.choice(("SubsetRandomSampler([0, 2, 3])", "WeightedRandomSampler([0.2, 0.3, 0.5], 11)"))
        return f"DataLoader(Squares(9), {size}, sampler={drawn}{drop})"
    if kind == 7:
        batches = f"BatchSampler(SequentialSampler(data), {size}, {draw.choice(('True', 'False'))})"
        return f"[DataLoader(data, batch_sampler={batches}) for data in [{data}]][0]"
    return f"BatchSampler(SubsetRandomSampler(range(8)), {size}, drop_last={draw.choice(('True', 'False'))})"


def _programs(count: int) -> list[str]:
    """Return what makes one object each, as `value`."""
    draw = random.Random(28)
    return [f"value = {loader(draw) if number % 3 else dataset(draw)}\n" for number in range(count)]


def _errors(text: str) -> list[bool]:
    return [one.certain for one in check(from_text(text, "program.py")).findings if one.code == "TAPE101"]


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_lengths_and_batches_are_those_of_torch(tmp_path: Path) -> None:
    made = _programs(150)
    path = tmp_path / "all.py"
    raised = "except (RuntimeError, TypeError, ValueError):\n    print()\n"
    tried = [f"try:\n    {text}    print(len(value), sum(1 for _ in value))\n{raised}" for text in made]
    path.write_text(HEAD + "".join(tried))
    ran = under_torch.run_all([{"path": path, "seconds": 60}])[0]
    assert ran["exception"] is None, ran
    measured = [tuple(map(int, line.split())) for line in ran["output"].splitlines()]
    assert len(measured) == len(made) and sum(map(bool, measured)) > 120
    wrong = {}
    for text, counts in zip(made, measured, strict=True):
        if not counts:
            continue
        length, batches = counts
        head = HEAD + text
        asked = [_errors(head + TWICE.format(value="len(value)", count=one)) for one in (length, length + 1)]
        looped = head + COUNTED.format(value="value")
        gone = [_errors(looped + TWICE.format(value="count", count=one)) for one in (batches, batches + 1)]
        if asked != [[True], []] or gone != [[True], []]:
            wrong[text] = counts, asked, gone
    assert wrong == {}


UNKNOWN = {
    "the number of processes": (
        "import torch.distributed as dist\ndata = Squares(12)\n"
        "value = DataLoader(data, 4, sampler=DistributedSampler(data, num_replicas=dist.get_world_size(), rank=0))"
    ),
    "that of the run": "data = Squares(12)\nvalue = DataLoader(data, 4, sampler=DistributedSampler(data))",
    "the batch size": "import sys\nvalue = DataLoader(Squares(12), batch_size=int(sys.argv[1]))",
    "the options": "import json\nvalue = DataLoader(Squares(12), batch_size=4, **json.load(open('options.json')))",
    "the samples": "import glob\nvalue = DataLoader(glob.glob('*.png'), batch_size=4)",
    "the dataset": "import json\nvalue = DataLoader(Squares(json.load(open('n.json'))), batch_size=4)",
    "a framework's share": (
        "from accelerate import Accelerator\nvalue = Accelerator().prepare(DataLoader(Squares(12), batch_size=4))"
    ),
}


@pytest.mark.parametrize("made", UNKNOWN)
def test_a_length_that_is_not_known_may_be_any(made: str) -> None:
    text = HEAD + UNKNOWN[made] + "\n"
    for value, before in (("len(value)", ""), ("count", COUNTED.format(value="value"))):
        three, four = (_errors(text + before + TWICE.format(value=value, count=count)) for count in (3, 4))
        assert three == four, value


def test_a_dataset_that_is_iterated_ends_by_itself() -> None:
    text = """
class Stream(torch.utils.data.IterableDataset):
    def __len__(self):
        return 12

    def __iter__(self):
        return iter(range(7))
value = DataLoader(Stream(), batch_size=4)
"""
    looped = HEAD + text + COUNTED.format(value="value")
    assert _errors(looped + TWICE.format(value="count", count=3)) == _errors(
        looped + TWICE.format(value="count", count=2)
    )
    assert _errors(HEAD + text + TWICE.format(value="len(value)", count=3)) == [True]


STORED = {
    "TensorDataset(torch.randn(20, 2))": ("part.tensors = (torch.randn(8, 2),)",),
    "random_split(TensorDataset(torch.randn(20, 2)), [17, 3])[0]": (
        "part.indices = part.indices[:6]", "part.indices.append(0)", "setattr(part, 'indices', [0, 1])",
    ),
    "Subset(Squares(9), chosen)": ("chosen.append(3)", "part.indices = [1]", "part.indices.extend([4, 5, 6])"),
    "ConcatDataset([Squares(9), Squares(4)])": ("part.cumulative_sizes = [9, 30]", "part.cumulative_sizes[-1] = 2"),
    "RandomSampler(Squares(9))": ("part._num_samples = 4", "part.data_source = range(3)"),
    "WeightedRandomSampler([0.2, 0.8], 11)": ("part.num_samples = 4",),
    "SubsetRandomSampler(chosen)": ("chosen.append(3)", "part.indices = [1]"),
    "BatchSampler(SequentialSampler(Squares(9)), 4, False)": (
        "part.batch_size = 2", "part.drop_last = True", "part.sampler = range(3)",
    ),
    "DataLoader(Squares(9), 4)": ("part.batch_sampler.batch_size = 2", "part.batch_sampler.drop_last = True"),
}  # fmt: skip
MADE_OF = ("part", "ConcatDataset([part, part])", "DataLoader(part, 2)", "Subset(part, range(2))")


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
def test_a_length_after_a_store_is_that_of_torch_or_not_known(tmp_path: Path) -> None:
    made = [
        f"chosen = [0, 1]\npart = {part}\n" + (f"{store}\nvalue = {of}\n" if first else f"value = {of}\n{store}\n")
        for part, stores in STORED.items()
        for store in stores
        for of in MADE_OF
        for first in (True, False)
    ]
    path = tmp_path / "all.py"
    raised = "except (AttributeError, RuntimeError, TypeError, ValueError):\n    print()\n"
    tried = [
        "try:\n" + "".join(f"    {line}\n" for line in [*text.splitlines(), "print(len(value))"]) + raised
        for text in made
    ]
    path.write_text(HEAD + "".join(tried))
    ran = under_torch.run_all([{"path": path, "seconds": 60}])[0]
    assert ran["exception"] is None, ran
    measured = ran["output"].splitlines()
    assert len(measured) == len(made) and sum(map(bool, measured)) > 100
    wrong = {}
    for text, length in zip(made, measured, strict=True):
        if length:
            asked = [
                _errors(HEAD + text + TWICE.format(value="len(value)", count=one))
                for one in (int(length), *(other for other in range(limits.BATCHES_BOUND) if other != int(length)))
            ]
            # Known, and then the true one; or nothing is said of any that is not said of each.
            if any(one != asked[0] for one in asked) and (asked[0] != [True] or any(asked[1:])):
                wrong[text] = length, asked
    assert wrong == {}


def test_datasets_that_share_their_parts_are_counted_once() -> None:
    nested = "value = Squares(1)\n" + "value = ConcatDataset([value, value])\n" * 40
    assert _errors(HEAD + nested + TWICE.format(value="len(value)", count=2**40)) == [True]
