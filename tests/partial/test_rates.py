"""What an op does with a number that is not visible: a certain finding holds for each value of it.

A rate, an exponent, a slope out of a module that nobody can look into; torch runs each program with several.
"""

from __future__ import annotations

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.cases import under_torch

OPS = (
    "F.dropout(a, n)", "nn.Dropout(n)(a)", "F.dropout(a, p=n, training=True)", "F.dropout(a, 0.5, bool(n))",
    "F.alpha_dropout(a, n, training=True)", "nn.Dropout1d(n)(a)", "F.feature_alpha_dropout(a, n)", "F.leaky_relu(a, n)",
    "F.elu(a, alpha=n + 0.1)", "a.pow(n)", "a ** n", "a * n", "a + n", "a / (n + 1)", "a.clamp(min=n)",
    "a.norm(p=n + 1)",
    "F.threshold(a, n, 0.0)", "torch.lerp(a, a.detach(), n)", "a.add(a.detach(), alpha=n)", "F.hardshrink(a, n)",
    "F.softplus(a, beta=n + 1)", "F.normalize(a, p=n + 1, dim=1)", "torch.cdist(a, a.detach() + 1, p=n + 1)",
    "F.rrelu(a, n / 2, n)", "F.gelu(a) if n else a", "nn.Sequential(nn.Dropout(n), nn.Identity())(a)",
    "F.scaled_dot_product_attention(a[None], a[None], a[None], dropout_p=n)[0]",
    "nn.LSTM(3, 3, num_layers=2, dropout=n)(a)[0]", "nn.MultiheadAttention(3, 1, dropout=n)(a, a, a)[0]",
    "nn.TransformerEncoderLayer(3, 1, 3, dropout=n)(a)",
)  # fmt: skip
GIVEN = {
    "a leaf": "a = torch.rand(2, 3, requires_grad=True)",
    "what is computed": "w = torch.rand(2, 3, requires_grad=True)\na = w.exp()",
    "a sum": "w = torch.rand(2, 3, requires_grad=True)\na = w + 1",
}
THEN = {
    "walked twice": "r.sum().backward()\nr.sum().backward()",
    "the result changed": "r.add_(1)\nr.sum().backward()",
    "the given changed": "s = r * 2\nwith torch.no_grad():\n    a.mul_(2)\ns.sum().backward()",
    "both used": "s = (a * r).sum()\nr.mul_(2)\ns.backward()",
    "a view changed": "s = (a + r).sum()\nr[0].zero_()\ns.backward()",
}
VALUES = ("0.0", "0.5", "1")


def _line_of(program: str, value: str) -> int | None:
    """The line on which torch raises, None where it does not, -1 where the value is refused."""
    text = program.replace("from settings import n", f"n = {value}")
    try:
        exec(compile(text, "rate.py", "exec"), {})
    except RuntimeError as error:
        at = error.__traceback__
        while at is not None and at.tb_frame.f_code.co_filename != "rate.py":
            at = at.tb_next
        return None if at is None else at.tb_lineno
    except (ValueError, TypeError, IndexError):
        return -1
    return None


@pytest.mark.skipif(not under_torch.has_torch(), reason="needs torch")
@pytest.mark.parametrize("op", OPS)
def test_what_is_certain_of_a_hidden_number_holds_for_each(op: str) -> None:
    for given, then in ((given, then) for given in GIVEN.values() for then in THEN.values()):
        program = (
            "import torch\nimport torch.nn.functional as F\nfrom torch import nn\nfrom settings import n\n"
            f"torch.manual_seed(0)\n{given}\nr = {op}\n{then}\n"
        )
        raising = ("TAPE101", "TAPE102", "TAPE103", "TAPE104")
        certain = [one for one in check(from_text(program, "rate.py")).findings if one.certain and one.code in raising]
        lines = [line for line in (_line_of(program, value) for value in VALUES) if line != -1]
        for one in certain:
            assert None not in lines, (one.code, one.span.line, lines, program)
