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


@pytest.mark.parametrize("move", [".to(device)", ".to(device=device)", ".to(w0.device)"])
def test_a_leaf_that_is_moved_may_be_a_copy(move: str) -> None:
    assert certain("w0 = torch.zeros(1)" + PROGRAM.format(move=move)) == [("TAPE104", False)]


@pytest.mark.parametrize("move", ["", ".cpu()", ".to('cpu')", ".to(torch.float32)", ".to(dtype=torch.float)"])
def test_a_leaf_that_stays_where_it_is_is_itself(move: str) -> None:
    assert certain(PROGRAM.format(move=move)) == [("TAPE104", True)]


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
