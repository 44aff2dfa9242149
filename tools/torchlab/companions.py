"""Samples for what torch computes in objects: distributions, and weights that `torch.nn.utils` computes anew.

A method of a distribution is the op ``distributions.CLASS.METHOD``: its parameters are those of the constructor,
then those of the method. ``distributions.CLASS`` is what the constructor itself computes, which all methods share.
Needs torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch.distributions as D
from torch import nn

from tools.torchlab.samples import Sample

METHODS = ("log_prob", "cdf", "entropy", "rsample", "sample", "mean")
OF_A_VALUE = ("log_prob", "cdf")


def _r(*shape: int) -> torch.Tensor:
    return torch.empty(shape).uniform_(0.2, 0.8)


def _matrix() -> torch.Tensor:
    return torch.eye(3) + 0.1 * torch.ones(3, 3)


def _classes() -> Iterator[tuple[type[D.Distribution], Mapping[str, Callable[[], Any]], Callable[[], torch.Tensor]]]:
    """Yield a class, the arguments of its constructor, a value of its support."""

    def inside() -> torch.Tensor:
        return _r(3)

    def whole() -> torch.Tensor:
        return torch.ones(3)

    def index() -> torch.Tensor:
        return torch.tensor([0, 1])

    for cls in (D.Normal, D.Laplace, D.Cauchy, D.Gumbel, D.LogNormal):
        yield cls, {"loc": inside, "scale": inside}, inside
    yield D.StudentT, {"df": whole, "loc": inside, "scale": inside}, inside
    yield D.VonMises, {"loc": inside, "concentration": inside}, inside
    for cls in (D.HalfNormal, D.HalfCauchy):
        yield cls, {"scale": inside}, inside
    yield D.Exponential, {"rate": inside}, inside
    yield D.Poisson, {"rate": inside}, whole
    yield D.Gamma, {"concentration": inside, "rate": inside}, inside
    yield D.InverseGamma, {"concentration": lambda: 3 + _r(3), "rate": inside}, inside
    yield D.Beta, {"concentration1": inside, "concentration0": inside}, inside
    yield D.Kumaraswamy, {"concentration1": inside, "concentration0": inside}, inside
    yield D.Chi2, {"df": inside}, inside
    yield D.FisherSnedecor, {"df1": lambda: 5 + _r(3), "df2": lambda: 5 + _r(3)}, inside
    yield D.Weibull, {"scale": inside, "concentration": inside}, inside
    yield D.Pareto, {"scale": lambda: _r(3) * 0.1, "alpha": lambda: 3 + _r(3)}, inside
    yield D.Uniform, {"low": lambda: torch.zeros(3), "high": lambda: 1 + _r(3)}, inside
    yield D.Dirichlet, {"concentration": inside}, lambda: torch.full((3,), 1 / 3)
    for cls in (D.Bernoulli, D.Geometric):
        for name in ("probs", "logits"):
            yield cls, {name: inside}, whole
    yield D.ContinuousBernoulli, {"probs": inside}, inside
    for name in ("probs", "logits"):
        yield D.Categorical, {name: lambda: _r(2, 3)}, index
        yield D.OneHotCategorical, {name: lambda: _r(2, 3)}, lambda: torch.eye(3)[:2]
        yield D.OneHotCategoricalStraightThrough, {name: lambda: _r(2, 3)}, lambda: torch.eye(3)[:2]
        yield D.Multinomial, {"total_count": lambda: 2, name: lambda: _r(2, 3)}, lambda: 2 * torch.eye(3)[:2]
        yield D.Binomial, {"total_count": lambda: 2, name: inside}, whole
        yield D.NegativeBinomial, {"total_count": lambda: 2, name: inside}, whole
        yield D.RelaxedBernoulli, {"temperature": lambda: torch.tensor(0.5), name: inside}, inside
        yield (
            D.RelaxedOneHotCategorical,
            {"temperature": lambda: torch.tensor(0.5), name: lambda: _r(2, 3)},
            (lambda: torch.full((2, 3), 1 / 3)),
        )
    yield D.MultivariateNormal, {"loc": inside, "covariance_matrix": _matrix}, inside
    yield D.MultivariateNormal, {"loc": inside, "scale_tril": lambda: _matrix().tril()}, inside
    yield D.LogisticNormal, {"loc": inside, "scale": inside}, lambda: torch.full((4,), 0.25)


def _computed(distribution: D.Distribution) -> Any:
    """Return what the constructor computed: the tensors it keeps, those of the distributions it is made of included."""
    kept: dict[int, torch.Tensor] = {}
    inside = [distribution]
    for one in inside:
        for value in vars(one).values():
            if isinstance(value, torch.Tensor):
                kept[id(value)] = value
            elif isinstance(value, D.Distribution):
                inside.append(value)
    return tuple(kept.values()) if len(kept) > 1 else next(iter(kept.values()), None)


def _method(cls: type[D.Distribution], method: str, names: tuple[str, ...]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        count = len(names) - len(kwargs)
        given = {**dict(zip((n for n in names if n not in kwargs), args[:count], strict=True)), **kwargs}
        distribution = cls(**given, validate_args=False)
        if not method:
            return _computed(distribution)
        member = getattr(distribution, method)
        return member(*args[count:]) if callable(member) else member

    return run


def _called(fn: Callable[..., Any], **kwargs: Any) -> Any:
    value = [kwargs.pop("value")] if "value" in kwargs else []
    return fn(*value, **kwargs)


def distributions() -> Iterator[Sample]:
    """Every method of every class that takes its parameters as tensors."""
    parameters: dict[str, tuple[str, ...]] = {}
    rows = list(_classes())
    for cls, given, _ in rows:
        known = parameters.get(cls.__name__, ())
        parameters[cls.__name__] = (*known, *(name for name in given if name not in known))
    for cls, given, in_support in rows:
        params = parameters[cls.__name__]
        for method in ("", *METHODS):
            name = f"distributions.{cls.__name__}" + (f".{method}" if method else "")
            of_value = method in OF_A_VALUE
            torch.manual_seed(0)
            arguments = {key: make() for key, make in given.items()}
            last = {"value": in_support()} if of_value else {}
            call = functools.partial(_called, _method(cls, method, tuple(given)))
            yield Sample(name, call, (), {**arguments, **last}, (*params, *last))


def weights() -> Iterator[Sample]:
    """Weights that are computed anew for each forward."""
    utils = nn.utils.parametrizations

    def spectral(weight: torch.Tensor) -> torch.Tensor:
        layer = nn.Linear(3, 3)
        utils.spectral_norm(layer)
        return layer.parametrizations.weight[0](weight)

    def orthogonal(weight: torch.Tensor) -> torch.Tensor:
        layer = nn.Linear(3, 3)
        utils.orthogonal(layer)
        return layer.parametrizations.weight[0](weight)

    yield Sample("nn.utils.weight_norm", lambda g, v: torch._weight_norm(v, g, 0), (_r(3, 1), _r(3, 3)), {}, ("g", "v"))
    yield Sample("nn.utils.spectral_norm", spectral, (_r(3, 3),), {}, ("weight",))
    yield Sample("nn.utils.orthogonal", orthogonal, (_r(3, 3),), {}, ("weight",))


def companions() -> Iterator[Sample]:
    """All samples of this module."""
    yield from distributions()
    yield from weights()
