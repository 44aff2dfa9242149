"""What parameters are called in messages: the path of attributes from what the program calls their module."""

from __future__ import annotations

from tapecheck.interpret import interpret
from tapecheck.source import from_text
from tapecheck.tape import Ledger
from tests.interpret.truth import full


def names(program: str) -> list[str]:
    tape = interpret(from_text(full(program), "program.py")).tapes[0]
    ledger = Ledger()
    for event in tape.events:
        ledger.feed(event)
    return [leaf.name for leaf in ledger.leaves.values()]


def test_a_module_is_named_by_what_it_is_stored_under() -> None:
    program = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.scale = nn.Parameter(torch.ones(4))
    def forward(self, x):
        return self.body(x) * self.scale
net = Net()
net(torch.randn(2, 3)).sum().backward()
"""
    assert sorted(names(program)) == ["net.body.0.bias", "net.body.0.weight", "net.scale"]


def test_another_name_for_it_changes_nothing() -> None:
    program = "net = nn.Linear(3, 1)\nsame = net\nsame(torch.randn(2, 3)).sum().backward()\n"
    assert sorted(names(program)) == ["net.bias", "net.weight"]


def test_a_deep_copy_has_a_name_of_its_own() -> None:
    program = """
import copy
net = nn.Linear(3, 1, bias=False)
target = copy.deepcopy(net)
(net(torch.ones(3)) - target(torch.ones(3))).backward()
"""
    assert sorted(names(program)) == ["net.weight", "target.weight"]


def test_what_an_object_keeps_is_named_by_its_attribute() -> None:
    program = """
class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 1, bias=False)
trainer = Trainer()
trainer.net(torch.ones(3)).backward()
"""
    assert names(program) == ["net.weight"]


def test_a_part_has_its_name_from_the_whole_whichever_loop_it_goes_through() -> None:
    program = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3, bias=False) for _ in range(2)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
net = Net()
last = net.layers[1]
last(net(torch.randn(2, 3))).sum().backward()
"""
    assert sorted(names(program)) == ["net.layers.0.weight", "net.layers.1.weight"]
