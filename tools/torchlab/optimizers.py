"""What torch's optimizers do to parameters and gradients, by taking a step. Needs torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tapecheck.torchfacts.model import OptimizerFact, Tri, join_tri
from tapecheck.torchfacts.stored import write_fact

_FORMS: tuple[dict[str, Any], ...] = ({}, {"foreach": True}, {"foreach": False}, {"fused": True})


def _classes() -> Iterator[type[torch.optim.Optimizer]]:
    for _, value in sorted(vars(torch.optim).items()):
        if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and value is not torch.optim.Optimizer:
            yield value


def _built(
    cls: type[torch.optim.Optimizer], options: dict[str, Any]
) -> tuple[torch.optim.Optimizer, list[torch.nn.Parameter]] | None:
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.rand(3, 3)) for _ in range(2)]
    for arguments in ({}, {"lr": 0.1}):
        try:
            return cls(params, **arguments, **options), params
        except (TypeError, ValueError, RuntimeError):
            continue
    return None


def made_optimizers() -> Iterator[torch.optim.Optimizer]:
    """Yield an optimizer of each class."""
    for cls in _classes():
        built = _built(cls, {})
        if built is not None:
            yield built[0]


def _gradient(cls: type[torch.optim.Optimizer]) -> torch.Tensor:
    gradient = torch.full((3, 3), 0.5)
    return gradient.to_sparse() if cls is torch.optim.SparseAdam else gradient


def _closure(cls: type[torch.optim.Optimizer], params: list[torch.nn.Parameter]) -> Callable[[], torch.Tensor]:
    def evaluate() -> torch.Tensor:
        with torch.enable_grad():
            params[0].grad = _gradient(cls)
            return (params[0].detach() ** 2).sum()

    return evaluate


def _measure(cls: type[torch.optim.Optimizer]) -> OptimizerFact:
    changed: list[Tri] = []
    gradient_changed: list[Tri] = []
    skipped: list[Tri] = []
    fused: Tri | None = None
    needs_closure = False
    for options in _FORMS:
        built = _built(cls, options)
        if built is None:
            continue
        optimizer, params = built
        gradient = params[0].grad = _gradient(cls)
        versions = [p._version for p in params]
        before = gradient._version
        untouched = params[1].detach().clone()
        try:
            try:
                optimizer.step()
            except TypeError:
                needs_closure = True
                optimizer.step(_closure(cls, params))
        except (RuntimeError, NotImplementedError):
            continue
        bumped: Tri = "yes" if params[0]._version > versions[0] else "no"
        if options.get("fused"):
            fused = bumped
        else:
            changed.append(bumped)
        gradient_changed.append("yes" if gradient._version > before else "no")
        skipped.append("yes" if torch.equal(params[1], untouched) else "no")
    default = inspect.signature(cls.zero_grad).parameters["set_to_none"].default
    return OptimizerFact(
        name=cls.__name__,
        params=tuple(inspect.signature(cls).parameters),
        step_mutates=join_tri(changed),
        fused_step_mutates=fused,
        step_mutates_grad=join_tri(gradient_changed),
        step_skips_without_grad=join_tri(skipped),
        needs_closure=needs_closure,
        set_to_none=bool(default),
    )


def measure_optimizers() -> dict[str, Any]:
    """Rows by class name."""
    return {cls.__name__: write_fact(_measure(cls)) for cls in _classes()}
