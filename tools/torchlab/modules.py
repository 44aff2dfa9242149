"""What torch.nn's modules do to the autograd graph, by running them in train and eval mode. Needs torch."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import typing_extensions
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.modules.loss import _Loss
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves

from tapecheck.torchfacts.model import ModuleFact
from tapecheck.torchfacts.stored import write_fact, write_op
from tools.torchlab.probe import Call, Prober, Unusable, nested_structure
from tools.torchlab.reduce import Measured, fact_of, owners, summarise
from tools.torchlab.samples import UNCLEAR
from tools.torchlab.signatures import Bound, Signature, bind, of_python

PER_MODULE = 36
"""Configurations measured for one class."""
MOST_NAMED = 16
"""Above this many parameters and buffers, they go by their last name part: "*.weight"."""


@dataclass(frozen=True)
class ModuleSample:
    """A way to construct a module and a way to call it."""

    cls: type[nn.Module]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[Any, ...]
    keywords: Mapping[str, Any]


class ModuleProber(Prober):
    """Measures a module's forward; its parameters and buffers count as inputs under their own names."""

    def __init__(self, module: nn.Module, call: Call) -> None:
        super().__init__(call)
        self.module = module
        self.passed = dict(self.members)
        self.grouped = sum(1 for _ in itertools.chain(module.parameters(), module.buffers())) > MOST_NAMED
        held = self.held(module)
        self.members.update(held)
        buffers = {self.short(name) for name, _ in module.named_buffers()}
        self.grad_names = frozenset(self.members) - (buffers - {self.short(n) for n, _ in module.named_parameters()})

    def short(self, name: str) -> str:
        """Return the name facts use: without layer and direction in a recurrent module ("weight_ih_l1_reverse")."""
        if self.grouped and "." in name:
            return "*." + name.rsplit(".", 1)[-1]
        return re.sub(r"_l\d+(_reverse)?$", "", name)

    def held(self, module: nn.Module) -> dict[str, list[torch.Tensor]]:
        """Parameters and buffers by name."""
        result: dict[str, list[torch.Tensor]] = {}
        for name, tensor in itertools.chain(module.named_parameters(), module.named_buffers()):
            result.setdefault(self.short(name), []).append(tensor)
        return result

    def inputs(self) -> dict[str, list[torch.Tensor]]:
        return self.passed

    def target(
        self, grad: frozenset[str], only: int | None
    ) -> tuple[Callable[..., Any], dict[str, list[torch.Tensor]]]:
        module = copy.deepcopy(self.module)
        own = self.held(module)
        for name, tensors in own.items():
            for index, tensor in enumerate(tensors):
                if isinstance(tensor, nn.Parameter):
                    tensor.requires_grad_(name in grad and only in (None, index))
        return module, own

    def structure(self, value: Any) -> str:
        return nested_structure(value)


def _r(*shape: int) -> torch.Tensor:
    return torch.empty(shape).uniform_(0.2, 0.8)


def own() -> Iterator[ModuleSample]:
    """Yield samples for modules and configurations that module_db leaves out."""
    torch.manual_seed(0)
    image = _r(1, 4, 4, 4)
    simple: list[tuple[type[nn.Module], tuple[Any, ...], dict[str, Any], tuple[Any, ...]]] = [
        (nn.Identity, (), {}, (_r(2, 3),)),
        (nn.Flatten, (), {}, (_r(2, 3, 4),)),
        (nn.Flatten, (), {}, (_r(2, 4, 3).mT,)),
        (nn.Unflatten, (1, (2, 2)), {}, (_r(2, 4),)),
        (nn.Linear, (3, 4), {}, (_r(2, 3),)),
        (nn.Linear, (3, 4), {}, (_r(2, 5, 3),)),
        (nn.Linear, (3, 4), {"bias": False}, (_r(2, 3),)),
        (nn.Conv2d, (4, 2, 3), {}, (image,)),
        (nn.Conv2d, (4, 2, 3), {"bias": False}, (image,)),
        (nn.PixelShuffle, (2,), {}, (image,)),
        (nn.PixelUnshuffle, (2,), {}, (image,)),
        (nn.ChannelShuffle, (2,), {}, (image,)),
        (nn.Upsample, (), {"scale_factor": 2}, (image,)),
        (nn.Upsample, (), {"scale_factor": 2, "mode": "bilinear"}, (image,)),
        (nn.UpsamplingNearest2d, (), {"scale_factor": 2}, (image,)),
        (nn.UpsamplingBilinear2d, (), {"scale_factor": 2}, (image,)),
        (nn.Fold, ((3, 3), (2, 2)), {}, (_r(1, 4, 4),)),
        (nn.Unfold, ((2, 2),), {}, (image,)),
        (nn.CosineSimilarity, (), {}, (_r(2, 3), _r(2, 3))),
        (nn.PairwiseDistance, (), {}, (_r(2, 3), _r(2, 3))),
        (nn.RReLU, (), {}, (_r(3) - 0.5,)),
        (nn.Hardsigmoid, (), {}, (_r(3) - 0.5,)),
        (nn.Threshold, (0.1, 0.2), {}, (_r(3) - 0.5,)),
        (nn.CrossMapLRN2d, (2,), {}, (image,)),
        (nn.EmbeddingBag, (5, 3), {}, (torch.tensor([[0, 2, 2]]),)),
        (nn.Embedding, (5, 3), {}, (torch.tensor([0, 2, 2]),)),
        (nn.Embedding, (5, 3), {"max_norm": 0.1}, (torch.tensor([0, 2, 2]),)),
        (nn.TripletMarginLoss, (), {}, (_r(2, 3), _r(2, 3), _r(2, 3))),
        (nn.TripletMarginWithDistanceLoss, (), {}, (_r(2, 3), _r(2, 3), _r(2, 3))),
        (nn.NLLLoss2d, (), {}, (_r(1, 3, 2, 2), torch.zeros(1, 2, 2, dtype=torch.long))),
        (nn.CrossEntropyLoss, (), {}, (_r(4, 3), torch.tensor([0, 2, 1, 1]))),
        (nn.CrossEntropyLoss, (), {}, (_r(4, 3), _r(4, 3))),
        (nn.AdaptiveLogSoftmaxWithLoss, (4, 6, [2, 4]), {}, (_r(3, 4), torch.tensor([0, 3, 5]))),
        (nn.MaxUnpool1d, (2,), {}, (_r(1, 1, 2), torch.tensor([[[0, 2]]]))),
        (nn.MaxUnpool2d, (2,), {}, (_r(1, 1, 1, 1), torch.tensor([[[[0]]]]))),
        (nn.MaxUnpool3d, (2,), {}, (_r(1, 1, 1, 1, 1), torch.tensor([[[[[0]]]]]))),
        (nn.LazyLinear, (4,), {}, (_r(2, 3),)),
        (nn.LazyBatchNorm1d, (), {}, (_r(4, 3),)),
        (nn.LazyBatchNorm2d, (), {}, (image,)),
        (nn.LazyBatchNorm3d, (), {}, (_r(2, 3, 2, 2, 2),)),
        (nn.LazyInstanceNorm1d, (), {}, (_r(2, 3, 4),)),
        (nn.LazyInstanceNorm2d, (), {}, (image,)),
        (nn.LazyInstanceNorm3d, (), {}, (_r(2, 3, 2, 2, 2),)),
        (nn.MultiheadAttention, (4, 2), {}, (_r(3, 1, 4), _r(3, 1, 4), _r(3, 1, 4))),
        (nn.MultiheadAttention, (4, 2), {"batch_first": True}, (_r(1, 3, 4), _r(1, 3, 4), _r(1, 3, 4))),
        (nn.MultiheadAttention, (4, 2), {"dropout": 0.5}, (_r(3, 1, 4), _r(3, 1, 4), _r(3, 1, 4))),
        (nn.MultiheadAttention, (4, 2), {"kdim": 3, "vdim": 3}, (_r(3, 1, 4), _r(3, 1, 3), _r(3, 1, 3))),
        (nn.TransformerDecoder, (nn.TransformerDecoderLayer(4, 2, 8), 1), {}, (_r(3, 1, 4), _r(3, 1, 4))),
        (nn.TransformerEncoderLayer, (4, 2, 8), {}, (_r(3, 1, 4),)),
        (nn.TransformerDecoderLayer, (4, 2, 8), {}, (_r(3, 1, 4), _r(3, 1, 4))),
        (nn.TransformerEncoder, (nn.TransformerEncoderLayer(4, 2, 8), 1), {}, (_r(3, 1, 4),)),
        (nn.SyncBatchNorm, (3,), {}, (_r(4, 3),)),
    ]
    for dims in (1, 2, 3):
        shape = (2, 3, *[3] * dims)
        norm: type[nn.Module] = getattr(nn, f"BatchNorm{dims}d")
        options: tuple[dict[str, Any], ...] = (
            {},
            {"affine": False},
            {"track_running_stats": False},
            {"momentum": None},
        )
        simple += [(norm, (3,), dict(o), (_r(*shape),)) for o in options]
        dropout: type[nn.Module] = getattr(nn, f"Dropout{dims}d")
        simple += [(dropout, (), o, (_r(2, 3, *[3] * dims),)) for o in _dropout_options()]
        for padding in ("Reflection", "Replication", "Zero", "Circular"):
            simple.append((getattr(nn, f"{padding}Pad{dims}d"), (1,), {}, (_r(*shape),)))
    for dropout in (nn.Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout):
        simple += [(dropout, (), o, (_r(2, 3, 4),)) for o in _dropout_options()]
    for activation in (
        nn.ReLU,
        nn.ReLU6,
        nn.LeakyReLU,
        nn.ELU,
        nn.SELU,
        nn.CELU,
        nn.SiLU,
        nn.Mish,
        nn.Hardtanh,
        nn.Hardswish,
        nn.Hardsigmoid,
        nn.RReLU,
    ):
        simple += [(activation, (), {"inplace": flag}, (_r(3) - 0.5,)) for flag in (False, True)]
    simple += [(nn.Threshold, (0.1, 0.2), {"inplace": flag}, (_r(3) - 0.5,)) for flag in (False, True)]
    for recurrent in (nn.RNN, nn.GRU, nn.LSTM):
        for option in _recurrent_options():
            if "proj_size" in option and recurrent is not nn.LSTM:
                continue
            count = (2 if "num_layers" in option else 1) * (2 if "bidirectional" in option else 1)
            state = _r(count, 2, option.get("proj_size", 4))
            batch = _r(2, 3, 3) if option.get("batch_first") else _r(3, 2, 3)
            both = (state, _r(count, 2, 4))
            simple.append((recurrent, (3, 4), dict(option), (batch,)))
            simple.append((recurrent, (3, 4), dict(option), (batch, both if recurrent is nn.LSTM else state)))
    for cell in (nn.RNNCell, nn.GRUCell, nn.LSTMCell):
        simple.append((cell, (3, 4), {}, (_r(2, 3),)))
        simple.append((cell, (3, 4), {}, (_r(2, 3), (_r(2, 4), _r(2, 4)) if cell is nn.LSTMCell else _r(2, 4))))
    for cls, args, kwargs, inputs in simple:
        yield ModuleSample(cls, args, kwargs, inputs, {})
    attended = (_r(3, 1, 4), _r(3, 1, 4), _r(3, 1, 4))
    yield ModuleSample(nn.MultiheadAttention, (4, 2), {}, attended, {"need_weights": False})


def _recurrent_options() -> list[dict[str, Any]]:
    return [
        {},
        {"num_layers": 2},
        {"batch_first": True},
        {"bidirectional": True},
        {"bias": False},
        {"num_layers": 2, "dropout": 0.5},
        {"proj_size": 2},
        {"batch_first": True, "bidirectional": True},
        {"batch_first": True, "bias": False},
        {"bidirectional": True, "bias": False},
        {"proj_size": 2, "batch_first": True},
        {"proj_size": 2, "bidirectional": True},
        {"proj_size": 2, "bias": False},
    ]


def _dropout_options() -> list[dict[str, Any]]:
    return [{"p": p, "inplace": flag} for p in (0.5, 0.0) for flag in (False, True)] + [{}]


def from_module_db(training: bool) -> Iterator[ModuleSample]:
    """Yield the samples of torch's module_db."""
    for info in module_db:
        try:
            torch.manual_seed(0)
            drawn = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
            )
        except Exception:
            continue
        for sample in drawn:
            built, called = sample.constructor_input, sample.forward_input
            if called is not None:
                yield ModuleSample(info.module_cls, tuple(built.args), built.kwargs, tuple(called.args), called.kwargs)


def _signature(cls: type[nn.Module]) -> Signature:
    """Return the constructor's signature; the first overload's where it is written with overloads."""
    written = of_python(cls.__init__, drop_self=True)[0]
    if written.params == ("*args",) and not _container(cls):
        for overload in typing_extensions.get_overloads(cls.__init__):
            return of_python(overload, drop_self=True)[0]
    return written


def _with_forward(constructor: Bound, forward: Bound) -> tuple[Signature, dict[str, str]]:
    """Return the constructor's signature and kinds, and those of forward's optional parameters as "forward.NAME"."""
    optional = [p for p in forward.signature.params if p in forward.signature.defaults]
    names = tuple(f"forward.{p}" for p in optional)
    signature = replace(
        constructor.signature,
        params=(*constructor.signature.params, *names),
        keyword_only=constructor.signature.keyword_only | set(names),
        # Whoever asks when only the constructor's call is known must get both.
        defaults={**constructor.signature.defaults, **dict.fromkeys(names, "?")},
    )
    kinds = forward.kinds()
    return signature, {**constructor.kinds(), **{f"forward.{p}": kinds[p] for p in optional}}


def _build(sample: ModuleSample, training: bool) -> nn.Module:
    torch.manual_seed(0)
    module = sample.cls(*sample.args, **sample.kwargs)
    module.train(training)
    if isinstance(module, LazyModuleMixin):
        with torch.no_grad():
            module(*sample.inputs, **sample.keywords)
        module = copy.deepcopy(module)
    return module


def measure_sample(sample: ModuleSample, training: bool) -> tuple[Measured, nn.Module] | None:
    """Return what one configuration does in one mode, by the kinds of its constructor's arguments."""
    constructor = _signature(sample.cls)
    built = bind(constructor, sample.args, sample.kwargs)
    if built is None or any(isinstance(t, torch.Tensor) and not t.numel() for t in tree_leaves(sample.inputs)):
        return None
    try:
        module = _build(sample, training)
        bound = bind(of_python(type(module).forward, drop_self=True)[0], sample.inputs, sample.keywords)
        if bound is None:
            return None
        prober = ModuleProber(module, Call(module, sample.inputs, sample.keywords, owners(bound)))
        seen = prober.observe()
    except (Unusable, RuntimeError, ValueError, TypeError, AssertionError, NotImplementedError):
        return None
    named = tuple(prober.held(module))
    wide = Bound(replace(bound.signature, params=(*bound.signature.params, *named)), bound.values)
    fact = replace(
        fact_of(sample.cls.__name__, seen, wide, requires_grad_flag=False, inputs=tuple(prober.members)),
        params=bound.signature.params,
    )
    signature, kinds = _with_forward(built, bound)
    return Measured(signature, kinds, fact), module


def _samples(training: bool) -> dict[type[nn.Module], list[ModuleSample]]:
    found: dict[type[nn.Module], list[ModuleSample]] = defaultdict(list)
    for sample in itertools.chain(own(), from_module_db(training)):
        found[sample.cls].append(sample)
    return found


def _mode(cls: type[nn.Module], samples: Sequence[ModuleSample], training: bool) -> list[tuple[Measured, nn.Module]]:
    count: dict[Any, int] = defaultdict(int)
    found: list[tuple[Measured, nn.Module]] = []
    for sample in samples:
        bound = bind(_signature(cls), sample.args, sample.kwargs)
        key = tuple(sorted(bound.kinds().items())) if bound else None
        count[key] += 1
        if count[key] > 3 or len(found) >= PER_MODULE:
            continue
        measured = measure_sample(sample, training)
        if measured is not None:
            found.append(measured)
    return found


def _classes() -> Iterator[type[nn.Module]]:
    for name, value in sorted(vars(nn).items()):
        if (
            isinstance(value, type)
            and issubclass(value, nn.Module)
            and value is not nn.Module
            and value.__name__ == name
        ):
            yield value


def _container(cls: type[nn.Module]) -> bool:
    return cls.__module__ == "torch.nn.modules.container"


def built_layers() -> Iterator[nn.Module]:
    """Yield layers of all classes that there are samples of, one for each kind of arguments that the samples have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for samples in _samples(training=False).values():
            for sample in samples:
                with contextlib.suppress(RuntimeError, ValueError, TypeError, AssertionError, NotImplementedError):
                    yield _build(sample, training=False)


def measure_modules(only: Sequence[str] = ()) -> dict[str, Any]:
    """Rows by class name."""
    rows: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = {training: _samples(training) for training in (True, False)}
        for cls in _classes():
            if f"nn.{cls.__name__}" in UNCLEAR or (only and cls.__name__ not in only):
                continue
            fact = ModuleFact(
                name=cls.__name__,
                params=_signature(cls).params,
                container=_container(cls),
                calls_children=_container(cls) and cls.forward is not nn.Module.forward,
                loss=issubclass(cls, _Loss),
                inplace_flag="inplace" in inspect.signature(cls.__init__).parameters,
            )
            modes = {training: _mode(cls, samples[training][cls], training) for training in (True, False)}
            if not modes[True] and not fact.container:
                sys.stderr.write(f"  nn.{cls.__name__}: nothing measured\n")
                continue
            seen = [module for found in modes.values() for _, module in found]
            forward = of_python(type(seen[0]).forward, drop_self=True)[0] if seen else None
            fact = replace(
                fact,
                forward_params=forward.params if forward is not None else (),
                forward_defaults=forward.defaults if forward is not None else {},
                parameters=tuple(dict.fromkeys(n for m in seen for n, _ in m.named_parameters()))[: MOST_NAMED * 2],
                buffers=tuple(dict.fromkeys(n for m in seen for n, _ in m.named_buffers())),
            )
            row = write_fact(fact)
            for key, training in (("train", True), ("eval", False)):
                if modes[training]:
                    row[key] = write_op(summarise(cls.__name__, [measured for measured, _ in modes[training]]))
            if row.get("eval") == row.get("train"):
                row.pop("eval", None)
            rows[cls.__name__] = row
    return rows
