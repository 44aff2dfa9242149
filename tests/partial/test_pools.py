"""Executors and pools run what they are given: nothing of what a function may have done to a tensor is certain.

torch judges each program.
"""

from __future__ import annotations

import itertools

import pytest

from tapecheck.check import check
from tapecheck.source import from_text
from tests.interpret.truth import raises_here

torch = pytest.importorskip("torch")

FUNCTIONS = {
    "freezes": "lambda t: t.requires_grad_(False)",
    "switches on": "lambda t: t.requires_grad_()",
    "method": "Worker().run",
    "defined": "work",
    "reads": "lambda t: float(t.sum())",
}
POOLS = {
    "map": "list(ThreadPoolExecutor().map({}, [{}]))",
    "map discarded": "with ThreadPoolExecutor() as pool:\n    pool.map({}, [{}])",
    "submit": "with ThreadPoolExecutor() as pool:\n    pool.submit({}, {}).result()",
    "submit discarded": "with ThreadPoolExecutor(2) as pool:\n    pool.submit({}, {})",
    "futures": "with futures.ThreadPoolExecutor() as pool:\n    jobs = [pool.submit({}, one) for one in [{}]]",
    "thread pool": "with ThreadPool(2) as pool:\n    pool.map({}, [{}])",
    "apply": "pool = ThreadPool(2)\npool.apply({}, ({},))",
}
THEN = {
    "changed": "x.add_(1)",
    "walked": "(d * 2).sum().backward()",
    "gradient": "(d * d).sum().backward()\nd.grad.zero_()",
}


def _program(function: str, pool: str, given: str, then: str) -> str:
    return f"""\
import torch
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool


def work(t):
    t.requires_grad = not t.requires_grad


class Worker:
    def run(self, t):
        t.requires_grad_(False)


x = torch.ones(3, requires_grad=True)
d = torch.ones(3)
{POOLS[pool].format(FUNCTIONS[function], given)}
{THEN[then]}
"""


@pytest.mark.parametrize(("function", "pool"), [*itertools.product(FUNCTIONS, POOLS)])
def test_a_certain_error_is_raised(function: str, pool: str) -> None:
    for given, then in itertools.product("xd", THEN):
        program = _program(function, pool, given, then)
        found = check(from_text(program, "run.py")).findings
        sure = [one.code for one in found if one.certain and one.severity == "error"]
        assert not sure or raises_here(program), (given, then, sure)
