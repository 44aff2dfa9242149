"""What becomes of a leaf that is moved to a device: the leaf itself where it is there already, else a copy."""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import full

PROGRAM = """
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
w = torch.randn(4, 4, requires_grad=True){move}
w.add_(1)
(w * w).sum().backward()
"""


def certain(program: str) -> list[tuple[str, bool]]:
    return [(finding.code, finding.certain) for finding in check(from_text(full(program), "program.py")).findings]


@pytest.mark.parametrize(
    "move",
    [
        ".to(device)",
        ".to(device=device)",
        ".to(w0.device)",
        ".to(elsewhere.device)",
        ".to(device=elsewhere.config.gpu)",
    ],
)
def test_a_leaf_that_is_moved_may_be_a_copy(move: str) -> None:
    program = "import elsewhere\nw0 = torch.zeros(1)" + PROGRAM.format(move=move)
    assert certain(program) == [("TAPE104", False)]


@pytest.mark.parametrize("move", ["", ".cpu()", ".to('cpu')", ".to(torch.float32)", ".to(dtype=torch.float)"])
def test_a_leaf_that_stays_where_it_is_is_itself(move: str) -> None:
    assert certain(PROGRAM.format(move=move)) == [("TAPE104", True)]


@pytest.mark.parametrize("move", [".to(device)", ".to(device=device)"])
@pytest.mark.parametrize(
    "device",
    [
        "device = 'cuda' if torch.cuda.is_available() else 'cpu'",
        "device = 'cpu'\nif torch.cuda.is_available():\n    device = 'cuda:0'",
        "def pick():\n    return 'cuda' if torch.cuda.is_available() else 'cpu'\ndevice = pick()",
    ],
)
def test_a_device_that_is_the_host_for_want_of_a_gpu_may_be_another(device: str, move: str) -> None:
    program = (
        f"{device}\nw = torch.randn(4, requires_grad=True){move}\nw.pow(2).sum().backward()\nprint(w.grad.norm())\n"
    )
    assert certain(program) == [("TAPE105", False)]
    literally = program.replace(move, ".to('cpu')")
    assert certain(literally) == certain(literally.replace(".to('cpu')", ".to(device='cpu')")) == []


@pytest.mark.parametrize(
    "asked",
    [
        "print(torch.cuda.is_available())\ndevice = 'cpu'",
        "pin = torch.cuda.is_available()\ndevice = 'cpu'",
        "if torch.cuda.is_available():\n    raise SystemExit\ndevice = 'cpu'",
    ],
)
def test_a_device_that_hangs_on_no_gpu_is_what_it_says(asked: str) -> None:
    program = (
        f"{asked}\nw = torch.randn(4, requires_grad=True).to(device)\nw.pow(2).sum().backward()\nprint(w.grad + 1)\n"
    )
    assert certain(program) == []


def test_the_gradient_of_a_leaf_that_was_moved_goes_to_the_leaf() -> None:
    program = """
x = torch.randn(4, requires_grad=True)
y = x.to(torch.device("cuda"))
y.pow(2).sum().backward()
print(x.grad)
"""
    assert certain(program) == []


ON_CUDA = (".cuda()", ".to('cuda:0')", ".to(device='cuda')")


@pytest.mark.parametrize("move", ON_CUDA)
@pytest.mark.parametrize("made", ["torch.randn(4, requires_grad=True)", "torch.tensor(0.0).requires_grad_()"])
def test_a_leaf_that_was_made_on_the_cpu_is_copied_to_cuda(made: str, move: str) -> None:
    assert certain(f"w = {made}{move}\nfor _ in range(3):\n    w += 1\n(w * w).sum().backward()\n") == []


@pytest.mark.parametrize("move", ON_CUDA)
@pytest.mark.parametrize(
    "made",
    [
        "torch.randn(4, requires_grad=True, device=device)",
        "torch.randn(4).cuda().requires_grad_()",
        "torch.randn(4).to(device).requires_grad_()",
        "torch.randn(4).to(torch.device('cuda')).requires_grad_()",
        "[torch.set_default_device('cuda'), torch.randn(4, requires_grad=True)][1]",
    ],
)
def test_a_leaf_that_may_have_been_made_on_cuda_may_stay(made: str, move: str) -> None:
    program = f"device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nw = {made}{move}\nw.add_(1)\n"
    assert certain(program) == [("TAPE104", False)]


GUARDED = """
import sys

def main():
{guard}
    net = nn.Linear(3, 1).cuda()
    total = 0
    for _ in range(3):
        total = total + net(torch.randn(2, 3).cuda()).mean()
        total.backward()

main()
"""


@pytest.mark.parametrize(
    "guard",
    [
        "    if not torch.cuda.is_available():\n        print('no GPU')\n        sys.exit(1)",
        "    if not torch.cuda.is_available():\n        raise RuntimeError('no GPU')",
        "    if torch.cuda.is_available():\n        pass\n    else:\n        exit()",
        "    assert torch.cuda.is_available(), 'no GPU'",
    ],
)
def test_a_program_that_ends_for_want_of_a_gpu_runs_where_there_is_one(guard: str) -> None:
    assert certain(GUARDED.format(guard=guard)) == [("TAPE101", True)]


TWICE = "loss = nn.Linear(3, 1)(torch.randn(2, 3)).mean()\nloss.backward()\n"
INDENTED = TWICE.replace("\n", "\n    ")


@pytest.mark.parametrize(
    "program",
    [
        # What is done before the program ends is done.
        f"if not torch.cuda.is_available():\n    {INDENTED}loss.backward()\n    exit()\n",
        # Who catches the exception goes on without a GPU.
        (
            f"try:\n    if not torch.cuda.is_available():\n        raise RuntimeError\nexcept RuntimeError:\n    pass\n"
            f"if not torch.cuda.is_available():\n    {INDENTED}loss.backward()\n"
        ),
    ],
)
def test_what_runs_without_a_gpu_is_not_passed_over(program: str) -> None:
    assert certain(program) == [("TAPE101", True)]


@pytest.mark.parametrize(
    "program",
    [
        (
            "def trained():\n    loss.backward()\n    return True\n"
            "loss = nn.Linear(3, 1)(torch.randn(2, 3)).mean()\nassert trained() and torch.cuda.is_available()\n"
        ),
        # No machine runs both: there is none, and there is one.
        (
            f"pin = torch.cuda.is_available()\n{TWICE}if not torch.cuda.is_available():\n    raise SystemExit\n"
            "if not pin:\n    loss.backward()\n"
        ),
    ],
)
def test_no_world_is_half_with_a_gpu_and_half_without(program: str) -> None:
    assert certain(program) == []


def test_what_a_program_does_without_a_gpu_is_what_it_does() -> None:
    program = """
w = torch.randn(4, requires_grad=True)
if not torch.cuda.is_available():
    w.add_(1)
if w is None:
    raise ValueError
"""
    assert certain(program) == [("TAPE104", True)]


BUFFER = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("usage", nn.Parameter(torch.zeros(4)))
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        self.usage[:1] = 2.0
        return self.fc(x) + self.usage

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Net(){move}
net(torch.randn(2, 4)).sum().backward()
"""


@pytest.mark.parametrize(
    ("move", "said"),
    [
        ("", [("TAPE104", True)]),
        (".to(torch.float32)", [("TAPE104", True)]),
        (".train().float()", [("TAPE104", True)]),
        (".double()", []),
        (".to(torch.float64)", []),
        (".cuda()", []),
        (".to_empty(device='cpu')", []),
        (".to('cuda', torch.float16)", []),
        (".to(device)", [("TAPE104", False)]),
    ],
)
def test_a_buffer_that_is_a_leaf_is_moved_as_tensors_are(move: str, said: list[tuple[str, bool]]) -> None:
    assert certain(BUFFER.format(move=move)) == said


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("torch.ones(3, requires_grad=True, dtype=torch.float64)", [("TAPE104", True)]),
        ("torch.ones(3, requires_grad=True)", []),
        ("torch.ones(3, requires_grad=True, dtype=getattr(torch, input()))", [("TAPE104", False)]),
    ],
)
def test_a_leaf_that_has_the_type_already_is_itself(made: str, said: list[tuple[str, bool]]) -> None:
    assert certain(f"w = {made}.double()\nw.add_(1)\n") == said


DEVICES = (
    "torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
    "'mps' if torch.backends.mps.is_available() else 'cpu'",
    "config.device",
    "torch.device(config.name)",
    "'cuda:1'",
    "'meta'",
)
MADE_ON = (
    "torch.rand(3, requires_grad=True, device={})",
    "torch.tensor([0.5, 2.0], device={}, requires_grad=True)",
    "torch.zeros_like(torch.ones(3), device={}, requires_grad=True)",
    "torch.zeros(3, device={}).requires_grad_()",
)
MOVED_TO = (".to({})", ".to(device={})", ".to({}).to({})")
NEEDS_A_LEAF = ("torch.optim.SGD([w], lr=0.1)", "w.sum().backward()\nprint(w.grad * 2)")


@pytest.mark.parametrize("to", MOVED_TO)
@pytest.mark.parametrize("made", MADE_ON)
@pytest.mark.parametrize("device", DEVICES)
def test_a_leaf_that_was_made_on_the_device_stays_the_leaf(device: str, made: str, to: str) -> None:
    head = f"from hidden import config\ndevice = {device}\n"
    w = f"w = {made.format('device')}{to.replace('{}', 'device')}\n"
    assert certain(f"{head}{w}w.add_(1)\n") == [("TAPE104", True)]
    assert not [each for used in NEEDS_A_LEAF for each in certain(head + w + used)]


@pytest.mark.parametrize("device", DEVICES[:4])
@pytest.mark.parametrize("used", NEEDS_A_LEAF)
def test_one_that_was_made_elsewhere_may_be_a_copy(device: str, used: str) -> None:
    program = (
        f"from hidden import config\ndevice = {device}\nw = torch.rand(3, requires_grad=True).to(device)\n{used}\n"
    )
    assert certain(program) == [("TAPE105", False)]


@pytest.mark.parametrize("to", MOVED_TO)
@pytest.mark.parametrize("made", MADE_ON)
def test_torch_gives_back_the_leaf_itself(made: str, to: str) -> None:
    torch = pytest.importorskip("torch")
    names = {"torch": torch, "device": torch.device("meta")}
    exec(f"made = {made.format('device')}\nw = made{to.replace('{}', 'device')}", names)
    assert names["w"] is names["made"]
    elsewhere = torch.rand(3, requires_grad=True)
    assert elsewhere.to(names["device"]) is not elsewhere
