"""PackedSequence: what recurrent modules take and give keeps its graph, its `.data` too; torch is the judge."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

PACKED = """\
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

rnn = nn.KIND(4, 3)
x = torch.randn(5, 2, 4)
packed = pack_padded_sequence(x, torch.tensor([5, 3]))
output, _ = rnn(packed)
READ
loss.backward()
AGAIN
"""
READ = (
    "loss = output.data.sum()",
    "loss = output[0].pow(2).sum()",
    "loss = PackedSequence(output.data * 2, output.batch_sizes).data.pow(2).sum()",
    "whole, lengths = pad_packed_sequence(output)\nloss = whole.pow(2).sum()",
    "loss = rnn(pack_padded_sequence(torch.randn(5, 2, 4), [5, 3]))[0].data.pow(2).sum()",
)


@pytest.mark.parametrize("again", ["", "loss.backward()"])
@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_what_is_packed_keeps_its_graph(kind: str, read: str, again: str) -> None:
    program = PACKED.replace("KIND", kind).replace("READ", read).replace("AGAIN", again)
    assert [one.code for one in check(from_text(program, "packed.py")).findings] == (["TAPE101"] if again else [])
    raised = None
    try:
        exec(compile(program, "packed.py", "exec"), {})
    except RuntimeError as error:
        raised = error
    assert (raised is not None) == bool(again)


def test_what_a_recurrent_module_makes_of_what_is_not_visible_may_be_packed() -> None:
    program = "import torch\nfrom lib import batch\nrnn = torch.nn.GRU(4, 3)\nrnn(batch())[0].data.sum().backward()\n"
    assert check(from_text(program, "packed.py")).findings == []


KEPT = {
    "added up": "total = total + output.data.mean()",
    "collected": "total.append(output.data)",
    "read again": "loss = (loss + output.data).sum()",
    "changed in place": "output.data.mul_(2)",
    "changed through a name": "seen = output.data\n    seen.zero_()",
    "in the next round": "prev = output.data.mean()",
}


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("given", ["batch()", "batch"])
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_what_may_be_packed_or_not_is_told_as_neither(kind: str, given: str, kept: str) -> None:
    program = f"""\
import torch
from lib import batch
rnn = torch.nn.{kind}(4, 3)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
total, prev = {"[]" if "append" in KEPT[kept] else "0"}, 0
for step in range(5):
    output, state = rnn({given})
    loss = (output + prev).pow(2).mean()
    optimizer.zero_grad()
    {KEPT[kept] if "prev" not in KEPT[kept] else ""}
    loss.backward()
    optimizer.step()
    {KEPT[kept] if "prev" in KEPT[kept] else ""}
"""
    assert check(from_text(program, "packed.py")).findings == []


MOVED = (
    "", ".to('cpu')", ".double()", ".cpu().float()", ".to(torch.float64)", ".to(device)", ".to(device).half().float()",
    ".to(device='cpu', dtype=torch.float64)", ".to('cpu').to('cpu')",
)  # fmt: skip


@pytest.mark.parametrize("out", MOVED)
@pytest.mark.parametrize("given", MOVED[:5])
def test_what_is_packed_stays_so_when_it_is_moved(given: str, out: str) -> None:
    kind = ", dtype=torch.float64" if given in (".double()", ".to(torch.float64)") else ""
    program = f"""\
import torch
from torch.nn.utils.rnn import pack_sequence
device = torch.device("cpu")
rnn = torch.nn.GRU(4, 3{kind})
output, state = rnn(pack_sequence([torch.randn(3, 4), torch.randn(2, 4)]){given})
output{out}.data.mean().backward()
"""
    assert check(from_text(program, "packed.py")).findings == []
    exec(compile(program, "packed.py", "exec"), {})


CHANGED = ("output.data.mul_(0.5)", "output.data.add_(1)", "torch.relu_(output.data)", "state.mul_(0.5)")
FORMS = ("", ", num_layers=2", ", bidirectional=True", ", num_layers=2, bidirectional=True")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("changed", CHANGED)
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_what_is_certain_of_a_changed_output_is_what_torch_raises(kind: str, changed: str, form: str) -> None:
    program = PACKED.replace("nn.KIND(4, 3)", f"nn.{kind}(4, 3{form})").replace("AGAIN", "")
    program = program.replace(
        "READ", f"state = _[0] if isinstance(_, tuple) else _\n{changed}\nloss = output.data.sum()"
    )
    found = [one for one in check(from_text(program, "packed.py")).findings if one.certain]
    raised = False
    try:
        exec(compile(program, "packed.py", "exec"), {})
    except RuntimeError:
        raised = True
    assert raised or not found
