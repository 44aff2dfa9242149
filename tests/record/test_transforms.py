"""Whether a transform of torch.func runs is known everywhere within one, and asked for without leaving a trace."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tapecheck.record.probe.values import Values, transforming

torch = pytest.importorskip("torch")

TRANSFORMS = ("vmap", "grad", "jvp", "vjp", "jacrev", "jacfwd", "hessian", "functionalize")


def _under(transform: str, inner: Callable[..., object]) -> Callable[..., object]:
    """Return a function of a tensor to a number that runs another one under a transform."""
    func = torch.func
    if transform == "vmap":
        return lambda x: func.vmap(inner)(torch.stack((x, x))).sum()
    if transform == "jvp":
        return lambda x: func.jvp(inner, (x,), (x,))[1]
    if transform == "vjp":
        return lambda x: func.vjp(inner, x)[1](torch.ones(()))[0].sum()
    if transform == "functionalize":
        return func.functionalize(inner)
    return lambda x: getattr(func, transform)(inner)(x).sum()


@pytest.mark.parametrize("outer", TRANSFORMS)
def test_a_transform_is_seen_wherever_the_program_runs_within_it(outer: str) -> None:
    values, stack = Values(torch), torch._C._functorch.peek_interpreter_stack
    looks: list[tuple[bool, bool]] = []

    def look() -> None:
        looks.append((values.transforms(), stack() is not None))

    class Doubled(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            look()
            return x * 2

        @staticmethod
        def setup_context(ctx: object, inputs: object, output: object) -> None:
            look()

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            look()
            return gradient * 2

        @staticmethod
        def jvp(ctx: object, tangent: torch.Tensor) -> torch.Tensor:
            look()
            return tangent * 2

    def function(x: torch.Tensor) -> torch.Tensor:
        look()
        return Doubled.apply(x).sin().sum()

    for inner in (None, *TRANSFORMS):
        before = len(looks)
        try:
            _under(outer, function if inner is None else _under(inner, function))(torch.randn(3))
        except (RuntimeError, AssertionError):
            # Not all of them go within one another, or have rules for custom functions.
            assert inner is not None or outer == "functionalize"
            ran = False
        assert any(seen for seen, _ in looks[before:]) or not ran
        assert not values.transforms()
    function(torch.randn(3, requires_grad=True)).backward()
    assert looks[-1] == (False, False)
    assert all(seen == there for seen, there in looks)


def test_the_stack_of_transforms_is_left_alone() -> None:
    # Asked for once, it is there as long as the thread, and the engine copies it for every node.
    if hasattr(torch._C, "_are_functorch_transforms_active"):
        assert transforming(torch) is torch._C._are_functorch_transforms_active
