"""Operations that may give back the very tensor that they are given: whether a leaf comes out of one as itself is what
torch says (TAPE105).
"""

from __future__ import annotations

import warnings

import pytest

from tapecheck.check import check
from tapecheck.source import from_text

torch = pytest.importorskip("torch")

LEAVES = {
    "scalar": "torch.tensor(2.0, requires_grad=True)",
    "vector": "torch.rand(4, requires_grad=True)",
    "matrix": "torch.rand(3, 3, requires_grad=True)",
    "cube": "torch.rand(2, 3, 3, requires_grad=True)",
    "image": "torch.rand(1, 2, 3, 3, requires_grad=True)",
    "parameter": "nn.Parameter(torch.rand(3, 3))",
    "weight": "nn.Linear(3, 3).weight",
    "bias": "nn.Linear(3, 3).bias",
    "complex": "torch.rand(4, dtype=torch.complex64, requires_grad=True)",
    "complex matrix": "torch.rand(3, 3, requires_grad=True, dtype=torch.cfloat)",
    "made complex": "torch.rand(4).to(torch.complex64).requires_grad_()",
    "double": "torch.rand(4, dtype=torch.float64, requires_grad=True)",
    "transposed": "torch.rand(3, 2).t().requires_grad_()",
    "of a list": "torch.tensor([1.0, 2.0], requires_grad=True)",
    "loaded": "torch.load(FILE).requires_grad_()",
}
FORMS = (
    "x.real", "torch.real(x)", "x.conj()", "torch.conj(x)", "x.conj_physical()", "x.resolve_conj()", "x.resolve_neg()",
    "torch.positive(x)", "+x", "torch.atleast_1d(x)", "torch.atleast_2d(x)", "torch.atleast_3d(x)",
    "torch.atleast_1d([x])[0]", "torch.atleast_2d(x, x)[0]", "x.flatten()", "x.flatten(1)", "torch.flatten(x, -1)",
    "torch.flatten(x, start_dim=1)", "x.flatten(0, 0)", "nn.Flatten()(x)", "nn.Flatten(0)(x)", "x.contiguous()",
    "x.float()", "x.to(torch.float32)", "x.double()", "x.cpu()", "x.to('cpu')", "x.to(x.device)", "x.to(x)",
    "x.type_as(x)", "x.type(torch.float32)", "x.to_dense()", "x.sum_to_size(x.shape)", "x.sum_to_size(3, 3)",
    "torch.cartesian_prod(x)", "nn.Flatten(start_dim=1, end_dim=1)(x)", "nn.Sequential(nn.Flatten())(x)",
    "torch.broadcast_tensors(x)[0]", "torch.broadcast_tensors(torch.ones(3, 1), x)[1]",
    "torch.dropout(x, 0.0, True)", "torch.dropout(x, 0.5, False)", "F.dropout(x, 0.5, False)", "F.dropout(x, 0.0)",
    "F.dropout(x, training=False)", "F.dropout2d(x, 0.5, False)", "F.alpha_dropout(x)", "F.feature_alpha_dropout(x)",
    "nn.Dropout().eval()(x)", "nn.Identity()(x)", "nn.AlphaDropout().eval()(x)", "torch.as_tensor(x)",
    "torch.asarray(x)",
    "x.reshape(x.shape)", "x.ravel()", "x.view_as(x)", "x.expand_as(x)", "x.squeeze()",
    "torch.broadcast_to(x, x.shape)",
    "torch.broadcast_tensors(x, x)[0]", "x.T", "x.t()", "x.mT", "x.transpose(0, 0)", "x.clone()", "x[:]", "x[...]",
    "x.unsqueeze(0)", "x.conj().conj()", "x.real.flatten()",
    "torch.cat([x])", "torch.hstack([x])", "x.requires_grad_()", "x.movedim(0, 0)", "x.view(-1)", "torch.squeeze(x, 0)",
)  # fmt: skip


def _program(leaf: str, form: str) -> str:
    return f"""\
import torch
import torch.nn.functional as F
from torch import nn

x = {LEAVES[leaf]}
y = {form}
(y * y.conj()).sum().abs().backward()
y.grad.zero_()
"""


def _raised(program: str) -> str:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(program.replace("torch.load(FILE)", "torch.rand(3, 3)"), "program.py", "exec"), {})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("form", FORMS)
def test_a_leaf_comes_back_as_itself_where_it_does_under_torch(form: str) -> None:
    """Not what a file holds that nobody knows: nothing is told of it for certain."""
    wrong, missed = [], []
    for leaf in LEAVES:
        program = _program(leaf, form)
        raised = _raised(program)
        if raised and "NoneType" not in raised:
            continue
        found = [one for one in check(from_text(program, "train.py")).findings if one.code == "TAPE105"]
        if not raised and any(one.certain for one in found):
            wrong.append(leaf)
        if raised and not found and leaf != "loaded":
            missed.append(leaf)
    assert (wrong, missed) == ([], [])


COPIED = ("x.conj()", "x.conj_physical()", "torch.atleast_2d(x)", "x.flatten()", "x.real", "torch.conj_physical(x)")


@pytest.mark.parametrize("form", COPIED)
@pytest.mark.parametrize("leaf", LEAVES)
def test_what_is_changed_in_place_is_the_leaf_where_it_comes_back(leaf: str, form: str) -> None:
    """A leaf and a view of one raise, a copy does not (TAPE104)."""
    program = f"import torch\nfrom torch import nn\nx = {LEAVES[leaf]}\ny = {form}\ny.mul_(2)\n"
    sure = [one.certain for one in check(from_text(program, "train.py")).findings if one.code == "TAPE104"]
    assert sure == [True] if _raised(program) and leaf != "loaded" else True not in sure
