"""To find who keeps a tensor, the recorder runs no code of the program: proxies and lazy values stay as they are."""

from __future__ import annotations

from pathlib import Path

from tests.record.harness import Write, plain, probed

WATCHED = """
import collections, torch
from torch import nn
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class Slots:
    __slots__ = ("value", "__weakref__")
    def __init__(self): self.value = 0
    def __getattr__(self, name): print("asked", name); raise AttributeError(name)
class Meter:
    def __init__(self): self.store = {"losses": []}
class Proxy:
    def __getattribute__(self, name): print("proxy", name); return object.__getattribute__(self, name)
class Property:
    @property
    def __dict__(self): print("property"); return {}
class Entries(dict):
    def items(self): print("items"); return dict.items(self)
    def values(self): print("values"); return dict.values(self)
    def keys(self): print("keys"); return dict.keys(self)
    def __iter__(self): print("iterated"); return dict.__iter__(self)
class Elements(list):
    def __iter__(self): print("elements"); return list.__iter__(self)
    def __len__(self): print("length"); return list.__len__(self)
class Queue(collections.deque):
    def __iter__(self): print("queue"); return collections.deque.__iter__(self)
class Meta(type):
    def __getattribute__(self, name): print("meta", name); return type.__getattribute__(self, name)
    def __instancecheck__(self, value): print("instance"); return False
    def __eq__(self, other): print("equal"); return self is other
    def __hash__(self): print("hash"); return 1
class OfMeta(metaclass=Meta):
    kept = []
class Own(torch.Tensor):
    def __getattr__(self, name): print("of a tensor", name); raise AttributeError(name)
own = torch.ones(2).as_subclass(Own).requires_grad_()
optimizer.add_param_group({"params": [own]})
slots, proxy, asked, entries, elements, queue = Slots(), Proxy(), Property(), Entries(), Elements(), Queue()
meter = Meter()
boxes = []
of_meta, kept = object.__new__(OfMeta), type.__getattribute__(OfMeta, "kept")
print("-" * 9)
for step in range(8):
    optimizer.zero_grad()
    loss = model(torch.randn(3, 4)).pow(2).mean() + own.sum().as_subclass(torch.Tensor)
    loss.backward()
    optimizer.step()
    boxes.append(of_meta)
    slots.value = loss
    dict.__setitem__(entries, "loss", loss)
    list.append(elements, loss)
    queue.append(loss)
    kept.append(loss)
    meter.store["losses"].append(loss)
    object.__setattr__(proxy, "loss", loss)
"""


def test_no_code_of_the_program_runs(write: Write, tmp_path: Path) -> None:
    script = write(WATCHED)
    without, recorded = (way(script, cwd=str(tmp_path)) for way in (plain, probed))
    assert (recorded.stdout, recorded.stderr) == (without.stdout, without.stderr)
    tape = (tmp_path / "tape.jsonl").read_text()
    assert all(f'"holder":"{name}"' in tape for name in ("elements", "queue", "meter.store['losses']"))
