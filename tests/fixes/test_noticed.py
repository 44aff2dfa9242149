"""What notices that a value has no graph any more: a safe fix leaves what the program prints and learns, by torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import under_torch
from tests.fixes.support import fixes_of, run_texts, safe_fixes

STORED = """\
import torch
w = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
class Box: pass
box = Box()
total = 0.0
kept = []
def keep(x):
    {keeps}
for step in range(4):
    loss = (w * 2).exp().sum()
    {store}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{end}
print(w.tolist(), round(float(loss), 4))
"""
# What a function does with a value beside storing it; the first two: nothing.
KEEPS = {
    "alone": "kept.append(x)",
    "a number": "kept.append(x); print(x.item())",
    "returned": "kept.append(x); return x",
    "what is made of it": "kept.append(x); return x * 2",
    "on some way": "kept.append(x)\n    if len(kept) > 2: return x * 3\n    return x",
    "another store": "kept.append(x); box.x = x; return x",
    "a hook": "kept.append(x); x.register_hook(lambda g: g * 2); return x",
    "a kept gradient": "kept.append(x); x.retain_grad(); return x",
    "a change in place": "kept.append(x); x.mul_(2); return x",
    "another object": "kept.append(x); box.x = x",
}
ENDS = {
    "an array": "\ntry:\n    print(kept[-1].numpy() is None)\nexcept Exception as error:\n    print(type(error))",
    "an array in a test": "\nimport unittest\n"
    "with unittest.TestCase().assertRaises(RuntimeError):\n    kept[-1].numpy()",
    "an array in a block of its own": "\nclass Quiet:\n    def __enter__(self): pass\n"
    "    def __exit__(self, *e): return True\nwith Quiet():\n    print(kept[-1].numpy() is None)",
    "an array in a function": "\ndef array(x): return x.numpy()\ndef shape(x): return array(x).shape\n"
    "try:\n    print(shape(kept[-1]))\nexcept RuntimeError:\n    print('graph')",
    "an array of another": "import numpy\ntry:\n    print(numpy.asarray(torch.stack(kept)).shape)\n"
    "except Exception:\n    print('graph')",
    "formatted": "print(f'{float(total):.2f}')",
    "shown": "print('%d %.2f' % (step, float(total)))",
    "asked which object": "print(bool(kept) and kept[-1] is loss)",
    "found in a set": "print(loss in set(kept))",
    "found in slices": "print(len(set(kept[-1:] + [loss])), loss in [k for k in kept[-1:]])",
    "a key": "places = dict.fromkeys(kept, 1)\nprint(places.get(loss))",
    "a key of its own": "places = {loss: 1}\nprint([places.get(k) for k in kept])",
    "an index": "places = {}\nplaces[loss] = 1\nprint([k in places for k in kept])",
    "noted by a function": "places = {}\ndef note(x, n): places[x] = n\nnote(loss, 1)\n"
    "print([places.get(k) for k in kept])",
    "a part of a key": "places = {(loss, 1): 1}\nprint([places.get((k, 1)) for k in kept])",
    "told apart": "seen = set(kept)\nseen.add(loss)\nprint(len(seen))",
    "the best": "best = loss\nprint([k is best for k in kept])",
    "counted": "import collections\nprint(collections.Counter(kept)[loss])",
    "asked by name": "print([getattr(k, 'requires' '_grad') for k in (*kept, torch.as_tensor(total))])",
    "asked for its graph": "print(getattr(total, 'shape', 0), any(k.requires_grad for k in kept), hasattr(total, 'x'))",
    "in a dict": "d = {'t': total}; print(round(d['t'].item(), 2) if d['t'] else 0)",
    "unpacked": "t, n = total, 3; print(round(t.item(), 2) if t else 0)",
    "divided by": "try:\n    print(f'{1 / (total - total):.2f}')\nexcept ZeroDivisionError:\n    print('by zero')",
    "made of it": "rest = total * 0\ntry:\n    print(float(3 % rest))\nexcept ArithmeticError:\n    print(0)",
    "a rate of none": "seen = 0\ntry:\n    print(float(total / seen))\nexcept ZeroDivisionError:\n    print(0)",
    "divided in place": "rest = 1.0\ntry:\n    rest /= total * 0\nexcept ZeroDivisionError:\n    print(0)",
    "a mean": "print(round(float(total / (step + 1)), 3))",
    "a power": "rest = total * 0\ntry:\n    print(float(rest ** -1))\nexcept ZeroDivisionError:\n    print(0)",
    "a rate": "optimizer.param_groups[0]['lr'] = float(total); (w * 3).sum().backward(); optimizer.step()",
}
EVALUATED = """\
import copy, torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.randn(4, 3) for _ in range(3)]
def train():
    model.train()
    for x in data:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
def evaluate():
    model.eval()
    total = 0
    for x in data:
        y = model(x)
        {body}
        total {add}
    return total
for epoch in range(2):
    train()
    print(float(evaluate()))
"""
BODIES = {
    "plain": "pass",
    "parameters": "print(sum(p.numel() for p in model.parameters() if p.requires_grad))",
    "a kept gradient": "y.retain_grad()",
    "its graph": "y = y * 2 if y.requires_grad else y",
    "the mode": "y = y * 2 if torch.is_grad_enabled() else y",
    "an array": "try:\n            y.numpy()\n        except RuntimeError:\n            print('graph')",
    "a copy": "try:\n            copy.deepcopy(y)\n        except RuntimeError:\n            print('graph')",
    "a change": "try:\n            model[0].weight.mul_(1.0)\n        except RuntimeError:\n            print('leaf')",
}


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_a_helper_does_with_a_value_that_it_stores(tmp_path: Path) -> None:
    uses = {
        use: f"loss = (w * 2).exp().sum(); {use}"
        for use in ("aux = keep(loss); loss = loss + (aux or 0)", "keep(loss)")
    }
    texts = {
        (name, use): STORED.format(keeps=keeps, store=store, end="pass")
        for name, keeps in KEEPS.items()
        for use, store in uses.items()
    }
    safe = _held_against_torch(texts, tmp_path)
    for name in ("alone", "a number"):
        assert any("Hand over" in title for title in safe[name, "keep(loss)"])
        assert any("Store" in title for title in safe[name, "keep(loss)"])


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_reads_a_stored_number(tmp_path: Path) -> None:
    stores = ("total += loss", "total = total + loss", "kept.append(loss)")
    texts = {
        (name, store): STORED.format(keeps="pass", store=store, end=end)
        for name, end in ENDS.items()
        for store in stores
    }
    safe = _held_against_torch(texts, tmp_path)
    for name in ("formatted", "shown", "a mean"):
        assert any("number" in title for title in safe[name, "total += loss"])
        assert any("detached" in title for title in safe[name, "kept.append(loss)"])


CHANGES = (
    "pass",
    "loss.data.mul_(2)",
    "loss.detach().add_(1)",
    "held = [loss]; held[0].data.add_(1)",
    "loss.detach_()",
)


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_is_changed_once_it_is_stored(tmp_path: Path) -> None:
    stores = ("table[step] = loss", "kept.append(loss)", "total += loss", "total = loss")
    end = "print([round(float(one), 3) for one in (*table.values(), *kept, total)])"
    texts = {
        (change, store): STORED.format(keeps="pass", store=store, end=end)
        .replace("kept = []", "kept, table = [], {}")
        .replace("optimizer.step()\n", f"optimizer.step()\n    {change}\n")
        for change in CHANGES
        for store in stores
    }
    safe = _held_against_torch(texts, tmp_path)
    assert all(safe["pass", store] for store in stores[:3])


@pytest.mark.skipif(not under_torch.has_torch(), reason="torch is not installed")
def test_what_an_evaluation_asks(tmp_path: Path) -> None:
    adds = ("+= y.sum()", "+= y.sum().item()")
    texts = {(name, add): EVALUATED.format(body=body, add=add) for name, body in BODIES.items() for add in adds}
    safe = _held_against_torch(texts, tmp_path)
    for name in ("plain", "parameters"):
        assert all(any("no_grad" in title for title in safe[name, add]) for add in adds)


def _held_against_torch(texts: dict[tuple[str, str], str], folder: Path) -> dict[tuple[str, str], list[str]]:
    """The titles of the safe fixes of each program, which ends as it did with each of them."""
    titles: dict[tuple[str, str], list[str]] = {key: [] for key in texts}
    pairs: list[tuple[str, str, str]] = []
    for key, text in texts.items():
        found = list(safe_fixes(text))
        titles[key] += [title for title, _ in found]
        pairs += [(title, text, after) for title, after in found]
    programs = list(dict.fromkeys(text for _, *both in pairs for text in both))
    outcomes = dict(zip(programs, run_texts(programs, folder), strict=True))
    for title, before, after in pairs:
        was, now = outcomes[before], outcomes[after]
        assert was["exception"] is None, f"{before}\n{was['message']}"
        assert now["exception"] is None, f"{title}\n{after}\n{now['message']}"
        assert (now["output"], now["parameters"]) == (was["output"], was["parameters"]), f"{title}\n{after}"
    return titles


@pytest.mark.parametrize(
    ("end", "what"),
    [
        ("print(kept[-1].requires_grad)", "asks whether there is a graph"),
        ("print(kept[-1] is loss)", "asks which object a value is"),
        (ENDS["an array"].strip(), "goes on where something refuses a value with a graph"),
    ],
)
def test_why_a_fix_is_not_safe_is_said(end: str, what: str) -> None:
    fixes = fixes_of(STORED.format(keeps="pass", store="kept.append(loss)", end=end), "TAPE201")
    unsafe = [fix for fix in fixes if "detached" in fix.title]
    assert unsafe and all(fix.applicability == "unsafe" and what in fix.changes for fix in unsafe)
