"""The calls that are measured: torch's own OpInfo samples, and small ones for what those leave out. Needs
torch.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, get_overridable_functions
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

DRAWN = 1000
"""OpInfo samples drawn for one op at most."""
PER_OP = 150
"""Of those, how many are looked at, evenly spread: neighbours differ in the last option only."""


@dataclass(frozen=True)
class Sample:
    """A call to measure. `params` is given where torch has no signature to ask."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    params: tuple[str, ...] = ()


class _Capture(TorchFunctionMode):  # type: ignore[misc]
    """Notes the first torch callable of one of `tails` that runs, with its arguments."""

    def __init__(self, tails: set[str]) -> None:
        super().__init__()
        self.tails = tails
        self.found: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.found is None and getattr(func, "__name__", "") in self.tails:
            self.found = (func, tuple(args), dict(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _empty(args: Any) -> bool:
    return any(isinstance(t, torch.Tensor) and not t.numel() for t in tree_leaves(args))


def _dtype_for(op: Any) -> torch.dtype:
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.int64, torch.bool):
        if dtype in op.dtypes:
            return dtype
    return torch.float32


def resolve(name: str) -> Callable[..., Any] | None:
    """Return the callable under torch, or the method of Tensor, that a canonical op name stands for."""
    target: Any = torch
    for part in name.split("."):
        target = getattr(target, part, None)
        if target is None:
            break
    if callable(target) and not isinstance(target, type):
        return target  # type: ignore[no-any-return]
    method = getattr(torch.Tensor, name, None) if "." not in name else None
    return method if callable(method) else None


def from_opinfo(only: Container[str] | None = None, seed: int = 0) -> Iterator[Sample]:
    """Yield the samples of torch's op_db, as the call that really reaches torch, under the op's name."""
    for op in op_db:
        # Subscripts are measured as getitem, by kind of index; complex variants would blur the real ones.
        if (
            op.name == "__getitem__"
            or op.name in UNCLEAR
            or op.variant_test_name == "complex"
            or (only is not None and op.name not in only)
        ):
            continue
        tail = op.name.rsplit(".", 1)[-1]
        dtype = _dtype_for(op)
        wants_grad = op.supports_autograd and dtype.is_floating_point
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(seed)
                drawn = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=wants_grad), DRAWN))
        except Exception:
            continue
        public = resolve(op.name)
        for sample in drawn[:: 1 + (len(drawn) - 1) // PER_OP]:
            args = (sample.input, *sample.args)
            if _empty((args, sample.kwargs)):
                continue
            fn: Callable[..., Any] = op.op
            kwargs = dict(sample.kwargs)
            capture = _Capture({tail, tail.strip("_"), getattr(public, "__name__", tail)})
            try:
                with capture:
                    op.op(*args, **kwargs)
            except Exception:
                continue
            if capture.found is not None:
                fn, args, kwargs = capture.found
            elif getattr(fn, "__name__", "") == "<lambda>":
                continue
            yield Sample(op.name, fn, args, kwargs)


UNCLEAR = frozenset({"nn.functional.linear_cross_entropy", "nn.LinearCrossEntropyLoss"})
"""What they do hangs on an options object, of which no kind of argument tells anything."""
PARAMS: Mapping[str, tuple[str, ...]] = {"einsum": ("equation", "*operands")}
"""Parameters of ops whose signature says less than their documentation."""


def aliases() -> Iterator[tuple[str, str]]:
    """(alias, op) as torch's op_db lists them, and functions that several modules offer under one name."""
    for op in op_db:
        for alias in op.aliases:
            yield alias.name, op.name
    for name in overridable():
        tail = name.rsplit(".", 1)[-1]
        if tail != name:
            yield name, tail


def overridable() -> set[str]:
    """Canonical names of all public functions and methods that torch lets a tensor subclass override."""
    found: set[str] = set()
    spaces = {
        "torch": "",
        "torch.nn.functional": "nn.functional.",
        "torch.linalg": "linalg.",
        "torch.fft": "fft.",
        "torch.special": "special.",
        "torch.functional": "",
    }
    for space, members in get_overridable_functions().items():
        prefix = spaces.get(getattr(space, "__name__", "")) if space is not torch.Tensor else ""
        if prefix is not None:
            found.update(prefix + getattr(fn, "__name__", "_") for fn in members)
    return {name for name in found if not name.rsplit(".", 1)[-1].startswith("_")}


def borrowers(known: Mapping[str, Any]) -> Iterator[tuple[str, Callable[..., Any], str]]:
    """(name, callable, tail of the names whose samples may fit it) for what has no samples of its own."""
    tails = {name.rsplit(".", 1)[-1] for name in known}
    names = overridable() | {alias.name for op in op_db for alias in op.aliases}
    names |= {name for name in dir(torch.Tensor) if name.endswith("_") and not name.startswith("_")}
    same = {alias.name: op.name.rsplit(".", 1)[-1] for op in op_db for alias in op.aliases}
    for name in sorted(names):
        fn = resolve(name)
        tail = name.rsplit(".", 1)[-1]
        if fn is None:
            continue
        own_tail = same.get(name, tail)
        # An alias has the samples of its op, whatever it has of its own.
        if (name not in known or name in same) and own_tail in tails:
            yield name, fn, own_tail
        elif tail.endswith("_") and same.get(name[:-1], tail[:-1]) in tails:
            yield name, fn, same.get(name[:-1], tail[:-1])


def _r(*shape: int, low: float = 0.2, high: float = 0.8) -> torch.Tensor:
    return torch.empty(shape).uniform_(low, high)


def _signed(*shape: int) -> torch.Tensor:
    return torch.linspace(-0.9, 0.8, math.prod(shape)).reshape(shape)


def _getitem(self: torch.Tensor, index: Any) -> torch.Tensor:
    return self[index]


def _setitem(self: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    self[index] = value
    return self


def _attribute(name: str) -> Callable[[torch.Tensor], Any]:
    def read(self: torch.Tensor) -> Any:
        return getattr(self, name)

    return read


ATTRIBUTES = (
    "T mT H mH data real shape ndim dtype device is_leaf requires_grad grad itemsize nbytes is_cuda is_sparse layout"
)

INDEX_KINDS: Mapping[str, Callable[[], Any]] = {
    "int": lambda: 1,
    "slice": lambda: slice(0, 2),
    "none": lambda: None,
    "ellipsis": lambda: ...,
    "tuple": lambda: (slice(None), 1),
    "list": lambda: [0, 2],
    "mask": lambda: torch.tensor([True, False, True, False]),
    "tensor": lambda: torch.tensor([0, 2]),
    "scalar_tensor": lambda: torch.tensor(1),
    "tuple_list": lambda: (slice(None), [0, 1]),
    "tuple_tensor": lambda: (torch.tensor([0, 2]), torch.tensor([1, 0])),
    "tuple_mask": lambda: (slice(None), torch.tensor([True, False, True])),
}
"""How a subscript is written -> an index into a tensor of shape (4, 3). Kinds of `getitem.KIND`."""

_SCALAR_BINARY = (
    "add sub mul div true_divide pow remainder fmod floor_divide rsub eq ne lt le gt ge float_power "
    "xlogy maximum minimum where subtract multiply divide copysign lerp clamp clamp_min clamp_max "
    "masked_fill logical_and hypot atan2"
)

_DUNDERS = "radd rsub rmul rtruediv rfloordiv rmod rpow"

_UNARY_DUNDERS = ("neg", "pos", "abs")
_BIT_DUNDERS = "and or xor rand ror rxor iand ior ixor lshift rshift ilshift irshift rlshift rrshift"


def own() -> Iterator[Sample]:
    """Yield samples for what OpInfo leaves out."""
    torch.manual_seed(0)
    yield from _operators()
    yield from _subscripts()
    yield from _tensor_methods()
    yield from _functional()
    yield from _sparse()
    yield from _utilities()
    yield from _constructors()


def _operators() -> Iterator[Sample]:
    for name in _SCALAR_BINARY.split():
        fn = resolve(name)
        if fn is None:
            continue
        for scalar in (2, 0.5, 3.0):
            if name == "where":
                yield Sample(name, torch.where, (_r(3) > 0.5, _r(3), scalar))
                yield Sample(name, torch.where, (_r(3) > 0.5, scalar, _r(3)))
            elif name == "masked_fill":
                yield Sample(name, torch.masked_fill, (_r(3), _r(3) > 0.5, scalar))
            elif name == "lerp":
                yield Sample(name, torch.lerp, (_r(3), _r(3), scalar))
            elif name == "clamp":
                yield Sample(name, torch.clamp, (_r(3), 0.1, scalar))
                yield Sample(name, torch.clamp, (_r(3),), {"min": 0.1})
                yield Sample(name, torch.clamp, (_r(3),), {"max": scalar})
            else:
                yield Sample(name, fn, (_r(3), scalar))
                inplace = getattr(torch.Tensor, name + "_", None)
                if inplace is not None and name not in ("float_power",):
                    yield Sample(name + "_", inplace, (_r(3), scalar))
                    yield Sample(name + "_", inplace, (_r(2, 3), _r(2, 3)))
    yield Sample("pow", torch.pow, (2, _r(3)))
    yield Sample("pow", torch.pow, (2.5, _r(3)))
    yield Sample("masked_fill_", torch.Tensor.masked_fill_, (_r(3), _r(3) > 0.5, 2.0))
    yield Sample("masked_fill_", torch.Tensor.masked_fill_, (_r(3), _r(3) > 0.5, _r()))
    yield Sample("clamp_", torch.Tensor.clamp_, (_r(3), 0.1, 0.5))
    yield Sample("clamp_", torch.Tensor.clamp_, (_r(3),), {"min": 0.1})
    for name in _DUNDERS.split():
        fn = getattr(torch.Tensor, f"__{name}__", None)
        if fn is None:
            continue
        params = ("self", "other")
        yield Sample(f"__{name}__", fn, (_r(3, 3), _r(3, 3)), params=params)
        for scalar in (2, 0.5):
            yield Sample(f"__{name}__", fn, (_r(3, 3), scalar), params=params)
    for name in _BIT_DUNDERS.split():
        fn = getattr(torch.Tensor, f"__{name}__", None)
        if fn is not None:
            left, right = torch.tensor([1, 2, 3]), torch.tensor([1, 0, 2])
            yield Sample(f"__{name}__", fn, (left, right), params=("self", "other"))
            yield Sample(f"__{name}__", fn, (left, 1), params=("self", "other"))
    for name in _UNARY_DUNDERS:
        yield Sample(f"__{name}__", getattr(torch.Tensor, f"__{name}__"), (_r(3),), params=("self",))
    yield Sample("__invert__", torch.Tensor.__invert__, (torch.tensor([True, False]),), params=("self",))
    for name in (
        "__float__",
        "__int__",
        "__bool__",
        "__index__",
        "__len__",
        "__iter__",
        "__contains__",
        "__array__",
    ):
        fn = getattr(torch.Tensor, name, None)
        if fn is None:
            continue
        value = torch.tensor(1) if name == "__index__" else _r(2) if name in ("__len__", "__iter__") else _r()
        args = (value, 0.5) if name == "__contains__" else (value,)
        yield Sample(name, fn, args, params=("self", "element")[: len(args)])


def _subscripts() -> Iterator[Sample]:
    for kind, index in INDEX_KINDS.items():
        for name in ("getitem", f"getitem.{kind}"):
            yield Sample(name, _getitem, (_r(4, 3), index()), params=("self", "index"))
        target = _r(4, 3)
        for name in ("setitem", f"setitem.{kind}"):
            value = _r(*target[index()].shape)
            yield Sample(name, _setitem, (_r(4, 3), index(), value), params=("self", "index", "value"))
            yield Sample(name, _setitem, (_r(4, 3), index(), 0.5), params=("self", "index", "value"))


def _tensor_methods() -> Iterator[Sample]:
    for name in ATTRIBUTES.split():
        yield Sample(name, _attribute(name), (_r(2, 3),), params=("self",))
    complex_tensor = torch.complex(_r(2), _r(2))
    for name in ("real", "imag"):
        yield Sample(name, _attribute(name), (complex_tensor,), params=("self",))
    method = torch.Tensor
    plain = (
        "detach numpy tolist item size dim numel nelement ndimension stride data_ptr is_contiguous "
        "get_device element_size storage_offset is_floating_point is_complex type detach_ "
        "untyped_storage storage is_shared is_pinned share_memory_ requires_grad_ retain_grad "
        "is_nonzero is_signed is_inference is_conj is_neg dim_order to_dense has_names positive t_ "
        "relu_ zero_ pin_memory"
    )
    for name in plain.split():
        fn = getattr(method, name, None)
        if fn is not None:
            shape = () if name in ("item", "is_nonzero") else (2, 3)
            yield Sample(name, fn, (_r(*shape),), params=("self",))
    yield Sample("contiguous", method.contiguous, (_r(2, 3).t(),), params=("self", "memory_format"))
    yield Sample("contiguous", method.contiguous, (_r(2, 3),), params=("self", "memory_format"))
    yield Sample("size", method.size, (_r(2, 3), 0), params=("self", "dim"))
    yield Sample("type", method.type, (_r(2, 3), torch.float64), params=("self", "dtype"))
    yield Sample("type", method.type, (_r(2, 3), torch.float32), params=("self", "dtype"))
    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool)
    names = "float double half bfloat16 int long short char byte bool cfloat cdouble chalf"
    for name in names.split():
        for dtype in kinds:
            yield Sample(name, getattr(method, name), (_r(2, 3).to(dtype),), params=("self", "memory_format"))
    yield Sample("int", method.int, (torch.zeros(2, dtype=torch.int32),), params=("self", "memory_format"))
    yield Sample("type_as", method.type_as, (_r(2, 3), _r(2)))
    yield Sample("type_as", method.type_as, (_r(2, 3), _r(2).double()))
    to = ("self", "other", "dtype", "copy")
    for target in (torch.float32, torch.float64, torch.float16, _r(1), _r(1).double()):
        yield Sample("to", method.to, (_r(2, 3), target), params=to)
    # The meta device stands for any other device than the tensor's own.
    for name, target in itertools.product(("to", "cuda", "cpu"), ("cpu", "meta")):
        yield Sample(
            name,
            method.to,
            (_r(2, 3), torch.device(target)),
            params=to if name == "to" else ("self", "device"),
        )
    yield Sample("to", method.to, (_r(2, 3),), {"copy": True}, params=to)
    yield Sample("to", method.to, (_r(2, 3),), {"dtype": torch.float32}, params=to)
    yield Sample("to", method.to, (_r(2, 3),), {"dtype": torch.float64}, params=to)
    for name in ("copy_", "set_"):
        yield Sample(name, getattr(method, name), (_r(2, 3), _r(2, 3)), params=("self", "src"))
    for name in (
        "fill_",
        "normal_",
        "uniform_",
        "random_",
        "exponential_",
        "log_normal_",
        "cauchy_",
        "bernoulli_",
    ):
        fn = getattr(method, name)
        yield Sample(name, fn, (_r(2, 3), 0.5) if name in ("fill_", "exponential_") else (_r(2, 3),))
    yield Sample("fill_", method.fill_, (_r(2, 3), _r()))
    yield Sample("geometric_", method.geometric_, (_r(2, 3), 0.5))
    yield Sample("fill_diagonal_", method.fill_diagonal_, (_r(3, 3), 0.5))
    yield Sample("apply_", method.apply_, (_r(2, 3), abs), params=("self", "callable"))
    yield Sample("register_hook", method.register_hook, (_r(2, 3).requires_grad_(), abs), params=("self", "hook"))
    for name in ("new_tensor", "new_full", "new_zeros", "new_ones", "new_empty"):
        arguments = {"new_full": ((2, 3), 0.5), "new_tensor": ([0.5, 1.0],)}.get(name, ((2, 3),))
        params = ("self", "data") if name == "new_tensor" else ()
        yield Sample(name, getattr(method, name), (_r(2, 3), *arguments), params=params)
    index = torch.tensor([0, 2])
    for name in ("index_add", "index_copy"):
        for suffix in ("", "_"):
            yield Sample(name + suffix, getattr(method, name + suffix), (_r(4, 3), 0, index, _r(2, 3)))
    for suffix in ("", "_"):
        yield Sample("index_fill" + suffix, getattr(method, "index_fill" + suffix), (_r(4, 3), 0, index, 0.5))
        yield Sample("index_fill" + suffix, getattr(method, "index_fill" + suffix), (_r(4, 3), 0, index, _r()))
        for accumulate in (False, True):
            yield Sample(
                "index_put" + suffix,
                getattr(method, "index_put" + suffix),
                (_r(4, 3), (index,), _r(2, 3)),
                {"accumulate": accumulate},
            )
        where = torch.tensor([[0, 1, 2], [1, 0, 2]])
        for name in ("scatter", "scatter_add"):
            fn = getattr(method, name + suffix)
            yield Sample(name + suffix, fn, (_r(4, 3), 0, where, _r(2, 3)))
            if name == "scatter":
                yield Sample(name + suffix, fn, (_r(4, 3), 0, where, 0.5))
        mask = torch.tensor([[True, False, True], [False, True, False]])
        yield Sample("masked_scatter" + suffix, getattr(method, "masked_scatter" + suffix), (_r(2, 3), mask, _r(6)))
    yield Sample("unflatten", method.unflatten, (_r(4, 3), 0, (2, 2)))
    yield Sample("resize_", method.resize_, (_r(4, 3), (3, 4)))
    yield Sample("split", torch.split, (_r(4, 3), 2))
    yield Sample("split", torch.split, (_r(4, 3), [1, 3]))
    yield Sample("norm", torch.norm, (_r(4, 3),))
    yield Sample("norm", torch.norm, (_r(4, 3), 2))
    yield Sample("norm", torch.norm, (_r(4, 3), 1))
    yield Sample("norm", torch.norm, (_r(4, 3), 2, 1))
    yield Sample("norm", torch.norm, (_r(4, 3),), {"dim": -1})
    yield Sample("norm", torch.norm, (_r(4, 3), "fro"))
    for left, right in (((2, 3, 4), (5, 2, 4, 3)), ((1, 3, 4), (5, 4, 3)), ((5, 3, 4), (1, 4, 3))):
        yield Sample("matmul", torch.matmul, (_r(*left), _r(*right)))
    yield Sample("logsumexp", torch.logsumexp, (_r(4, 3), 1))
    yield Sample("einsum", torch.einsum, ("ij,jk->ik", _r(2, 3), _r(3, 4)))
    yield Sample("einsum", torch.einsum, ("ij->i", _r(2, 3)))
    yield Sample("einsum", torch.einsum, ("bij,bjk->bik", _r(2, 3, 2), _r(2, 2, 4)))
    yield Sample("einsum", torch.einsum, ("ij,jk,kl->il", _r(2, 3), _r(3, 4), _r(4, 2)))
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        yield Sample(name, getattr(torch, name), (_r(3),))
    yield Sample("block_diag", torch.block_diag, (_r(2, 2), _r(2, 3)))
    yield Sample("cartesian_prod", torch.cartesian_prod, (_r(2), _r(3)))
    yield Sample("broadcast_tensors", torch.broadcast_tensors, (_r(2, 1), _r(3)))
    yield Sample("meshgrid", torch.meshgrid, (_r(2), _r(3)), {"indexing": "ij"})
    yield Sample("poisson", torch.poisson, (_r(3),))
    yield Sample("slogdet", torch.slogdet, (_r(3, 3) + torch.eye(3),))
    yield Sample("numel", torch.numel, (_r(3, 3),))
    yield Sample("is_tensor", torch.is_tensor, (_r(3, 3),), params=("obj",))


_POOLS = (
    ("avg_pool", 2),
    ("max_pool", 2),
    ("adaptive_avg_pool", 1),
    ("adaptive_avg_pool", 2),
    ("adaptive_max_pool", 1),
)


def _functional() -> Iterator[Sample]:
    for training, inplace in itertools.product((True, False), (False, True)):
        flags = {"training": training, "inplace": inplace}
        for p in (0.5, 0.0):
            for name in ("dropout", "alpha_dropout", "feature_alpha_dropout"):
                if hasattr(F, name):
                    yield Sample(f"nn.functional.{name}", getattr(F, name), (_r(2, 3, 4), p), flags)
            for dims, shape in ((1, (2, 3, 4)), (2, (2, 3, 4, 4)), (3, (2, 3, 4, 4, 4))):
                yield Sample(f"nn.functional.dropout{dims}d", getattr(F, f"dropout{dims}d"), (_r(*shape), p), flags)
        for p in (0.5, 0.0):
            if not inplace:
                yield Sample("dropout", torch.dropout, (_r(2, 3), p, training))
                yield Sample("rrelu", torch.rrelu, (_signed(6), 0.1, 0.3, training))
        yield Sample("nn.functional.rrelu", F.rrelu, (_signed(6),), flags)
    names = "relu relu6 leaky_relu elu selu celu silu mish hardtanh hardswish hardsigmoid"
    for name in names.split():
        for inplace in (False, True):
            yield Sample(f"nn.functional.{name}", getattr(F, name), (_signed(6),), {"inplace": inplace})
    for inplace in (False, True):
        yield Sample("nn.functional.threshold", F.threshold, (_signed(6), 0.1, 0.2, inplace))
    for name in ("relu", "leaky_relu", "elu", "hardtanh", "rrelu"):
        yield Sample(f"nn.functional.{name}_", getattr(F, f"{name}_"), (_signed(6),))
    for name in ("selu_", "celu_", "rrelu_", "dropout_", "alpha_dropout_", "feature_dropout_", "threshold_"):
        fn = getattr(torch, name)
        extra = {"threshold_": (0.1, 0.2)}.get(name, (0.5, True) if "dropout" in name else ())
        yield Sample(name, fn, (_signed(2, 3, 4), *extra))
    for training in (True, False):
        for affine in (True, False):
            weight, bias = (_r(3), _r(3)) if affine else (None, None)
            yield Sample("nn.functional.batch_norm", F.batch_norm, (_r(4, 3), _r(3), _r(3), weight, bias, training))
        yield Sample(
            "nn.functional.instance_norm",
            F.instance_norm,
            (_r(4, 3, 5), _r(3), _r(3), _r(3), _r(3), training),
        )
    for affine in (True, False):
        weight, bias = (_r(4), _r(4)) if affine else (None, None)
        yield Sample("nn.functional.layer_norm", F.layer_norm, (_r(2, 4), (4,), weight, bias))
        yield Sample("nn.functional.group_norm", F.group_norm, (_r(2, 4, 3), 2, weight, bias))
        yield Sample("nn.functional.rms_norm", F.rms_norm, (_r(2, 4), (4,), weight))
    logits, classes = _r(4, 3), torch.tensor([0, 2, 1, 1])
    for reduction in ("mean", "sum", "none"):
        chosen = {"reduction": reduction}
        pairs: dict[str, tuple[torch.Tensor, torch.Tensor]] = {
            "cross_entropy": (logits, classes),
            "nll_loss": (logits, classes),
            "mse_loss": (_r(4), _r(4)),
            "l1_loss": (_r(4), _r(4)),
            "smooth_l1_loss": (_r(4), _r(4)),
            "huber_loss": (_r(4), _r(4)),
            "binary_cross_entropy": (_r(4), _r(4)),
            "binary_cross_entropy_with_logits": (_r(4), _r(4)),
            "kl_div": (_r(4), _r(4)),
            "poisson_nll_loss": (_r(4), _r(4)),
            "soft_margin_loss": (_r(4), _r(4)),
            "hinge_embedding_loss": (_r(4), _r(4)),
        }
        for name, pair in pairs.items():
            yield Sample(f"nn.functional.{name}", getattr(F, name), pair, chosen)
        yield Sample("nn.functional.cross_entropy", F.cross_entropy, (logits, _r(4, 3)), chosen)
        yield Sample("nn.functional.cross_entropy", F.cross_entropy, (logits, classes, _r(3)), chosen)
        yield Sample(
            "nn.functional.cross_entropy",
            F.cross_entropy,
            (logits, classes),
            {**chosen, "label_smoothing": 0.1},
        )
        yield Sample(
            "nn.functional.binary_cross_entropy_with_logits",
            F.binary_cross_entropy_with_logits,
            (_r(4), _r(4)),
            {**chosen, "pos_weight": _r(4)},
        )
        yield Sample(
            "nn.functional.binary_cross_entropy_with_logits",
            F.binary_cross_entropy_with_logits,
            (_r(4), _r(4)),
            {**chosen, "weight": _r(4)},
        )
        yield Sample(
            "nn.functional.binary_cross_entropy",
            F.binary_cross_entropy,
            (_r(4), _r(4)),
            {**chosen, "weight": _r(4)},
        )
    yield Sample("nn.functional.cosine_similarity", F.cosine_similarity, (_r(2, 3), _r(2, 3)))
    yield Sample("nn.functional.normalize", F.normalize, (_r(2, 3),))
    yield Sample("nn.functional.affine_grid", F.affine_grid, (_r(1, 2, 3), [1, 1, 2, 2]))
    yield Sample("nn.functional.fold", F.fold, (_r(1, 4, 4), (3, 3), (2, 2)))
    for hard in (False, True):
        yield Sample("nn.functional.gumbel_softmax", F.gumbel_softmax, (_r(2, 3),), {"hard": hard})
    for dims in (1, 2, 3):
        yield Sample(f"nn.functional.lp_pool{dims}d", getattr(F, f"lp_pool{dims}d"), (_r(1, 2, *[4] * dims), 2.0, 2))
    for name in ("softmax", "log_softmax", "softmin"):
        yield Sample(f"nn.functional.{name}", getattr(F, name), (_r(2, 3),), {"dim": 1})
    for name in ("tanh", "sigmoid"):
        yield Sample(f"nn.functional.{name}", getattr(F, name), (_r(2, 3),))
    modes = {1: ("nearest", "linear"), 2: ("nearest", "bilinear", "bicubic"), 3: ("nearest", "trilinear")}
    for dims, named in modes.items():
        for mode in (*named, "nearest-exact", "area"):
            shape = _r(1, 2, *[4] * dims)
            yield Sample("nn.functional.interpolate", F.interpolate, (shape, 2), {"mode": mode})
            yield Sample("nn.functional.interpolate", F.interpolate, (shape, 1), {"mode": mode})
            yield Sample("nn.functional.interpolate", F.interpolate, (shape,), {"scale_factor": 2, "mode": mode})
    table, at = _r(5, 3), torch.tensor([0, 2, 2])
    yield Sample("nn.functional.embedding", F.embedding, (at, table))
    yield Sample("nn.functional.embedding", F.embedding, (at, table), {"padding_idx": 0})
    yield Sample("nn.functional.embedding", F.embedding, (at, table), {"scale_grad_by_freq": True})
    yield Sample("nn.functional.embedding", F.embedding, (at, table), {"max_norm": 0.1})
    yield Sample("nn.functional.embedding_bag", F.embedding_bag, (at.view(1, 3), table))
    for causal in (False, True):
        for dropout in (0.0, 0.5):
            yield Sample(
                "nn.functional.scaled_dot_product_attention",
                F.scaled_dot_product_attention,
                (_r(1, 2, 3, 4), _r(1, 2, 3, 4), _r(1, 2, 3, 4)),
                {"is_causal": causal, "dropout_p": dropout},
            )
    for dims in (1, 2, 3):
        image, kernel, bias = _r(1, 2, *[5] * dims), _r(3, 2, *[3] * dims), _r(3)
        for name in (f"conv{dims}d", f"nn.functional.conv{dims}d"):
            fn = getattr(torch if name == f"conv{dims}d" else F, f"conv{dims}d")
            yield Sample(name, fn, (image, kernel))
            yield Sample(name, fn, (image, kernel, bias, 2, 1))
            yield Sample(name, fn, (image, kernel, bias), {"padding": "same"})
            yield Sample(name, fn, (image, kernel, bias), {"padding": "valid", "dilation": 2})
            yield Sample(name, fn, (image, kernel, bias), {"padding": 1, "dilation": 2})
            yield Sample(name, fn, (_r(1, 4, *[5] * dims), _r(4, 2, *[3] * dims), _r(4)), {"groups": 2})
        for name, size in _POOLS:
            pool = getattr(F, f"{name}{dims}d")
            yield Sample(f"nn.functional.{name}{dims}d", pool, (image, size))
    yield Sample("nn.functional.linear", F.linear, (_r(2, 3), _r(4, 3), _r(4)))
    yield Sample("nn.functional.linear", F.linear, (_r(2, 3), _r(4, 3)))
    yield Sample("nn.functional.linear", F.linear, (_r(3), _r(4, 3), _r(4)))
    yield Sample("nn.functional.linear", F.linear, (_r(2, 5, 3), _r(4, 3), _r(4)))


def _sparse() -> Iterator[Sample]:
    """Products with a sparse matrix, for which a dense one may be given as well, and what is asked of sparse ones."""
    for name, fn in (("spmm", torch.spmm), ("dsmm", torch.dsmm), ("sparse.mm", torch.sparse.mm)):
        for matrix in (_r(3, 3), _r(3, 3).to_sparse(), _r(3, 3).to_sparse_csr()):
            yield Sample(name, fn, (matrix, _r(3, 4)), params=("mat1", "mat2"))
    for matrix in (_r(3, 3), _r(3, 3).to_sparse()):
        yield Sample("sparse.addmm", torch.sparse.addmm, (_r(3, 4), matrix, _r(3, 4)), params=("mat", "mat1", "mat2"))
    index = torch.tensor([[0, 1, 2], [1, 2, 0]])
    for size in ((), ((3, 3),)):
        yield Sample(
            "sparse_coo_tensor", torch.sparse_coo_tensor, (index, _r(3), *size), params=("indices", "values", "size")
        )
    coalesced, loose = _r(3, 3).to_sparse().coalesce(), torch.sparse_coo_tensor(index, _r(3), (3, 3))
    for name in ("coalesce", "is_coalesced", "sparse_dim", "dense_dim"):
        for matrix in (coalesced, loose) if name == "coalesce" else (coalesced,):
            yield Sample(name, getattr(torch.Tensor, name), (matrix,), params=("self",))


def _utilities() -> Iterator[Sample]:
    rnn = torch.nn.utils.rnn
    yield Sample("nn.utils.rnn.pad_sequence", rnn.pad_sequence, ([_r(2, 3), _r(3, 3)],))
    yield Sample("nn.utils.rnn.pack_sequence", rnn.pack_sequence, ([_r(3, 3), _r(2, 3)],))
    lengths = torch.tensor([3, 2])
    yield Sample("nn.utils.rnn.pack_padded_sequence", rnn.pack_padded_sequence, (_r(3, 2, 4), lengths))
    packed = rnn.pack_padded_sequence(_r(3, 2, 4), lengths)
    yield Sample("nn.utils.rnn.pad_packed_sequence", rnn.pad_packed_sequence, (packed,))
    vector = torch.nn.utils.parameters_to_vector
    yield Sample("nn.utils.parameters_to_vector", vector, ([_r(3, 3), _r(2, 3)],))
    for name in sorted(vars(torch.nn.init)):
        if not name.endswith("_") or name.startswith("_"):
            continue
        extra = {"constant_": (0.5,), "sparse_": (0.5,)}.get(name, ())
        shape = (2, 2, 3) if name == "dirac_" else (3, 3)
        yield Sample(f"nn.init.{name}", getattr(torch.nn.init, name), (_r(*shape), *extra))
    yield Sample("nn.functional.upsample", F.upsample, (_r(1, 2, 3, 3),), {"scale_factor": 2})
    yield Sample("vander", torch.vander, (_r(3),), params=("x", "N", "increasing"))
    yield Sample("chain_matmul", torch.chain_matmul, (_r(2, 3), _r(3, 4), _r(4, 2)))
    yield Sample("svd_lowrank", torch.svd_lowrank, (_r(4, 3), 2))
    yield Sample("pca_lowrank", torch.pca_lowrank, (_r(4, 3), 2))
    for name in ("selu_", "celu_", "threshold_"):
        bounds: tuple[float, ...] = (0.1, 0.2) if name == "threshold_" else ()
        yield Sample(f"nn.functional.{name}", getattr(F, name), (_signed(6), *bounds))
    yield Sample("fft.fftfreq", torch.fft.fftfreq, (4,))
    yield Sample("fft.rfftfreq", torch.fft.rfftfreq, (4,))


def _constructors() -> Iterator[Sample]:
    keyword = ("data",)
    yield Sample("tensor", torch.tensor, ([0.5, 1.0],), params=keyword)
    yield Sample("tensor", torch.tensor, (0.5,), params=keyword)
    yield Sample("tensor", torch.tensor, (_r(),), params=keyword)
    yield Sample("tensor", torch.tensor, (_r(3),), params=keyword)
    yield Sample("as_tensor", torch.as_tensor, ([0.5, 1.0],), params=keyword)
    yield Sample("as_tensor", torch.as_tensor, (_r(3),), params=keyword)
    yield Sample("asarray", torch.asarray, (_r(3),), params=("obj",))
    yield Sample("from_numpy", torch.from_numpy, (_r(3).numpy(),), params=("ndarray",))
    yield Sample("scalar_tensor", torch.scalar_tensor, (0.5,), params=("s",))
    sizes: dict[str, tuple[Any, ...]] = {
        "zeros": (2, 3),
        "ones": (2, 3),
        "empty": (2, 3),
        "rand": (2, 3),
        "randn": (2, 3),
        "full": ((2, 3), 0.5),
        "randint": (3, (2, 3)),
        "randperm": (4,),
        "arange": (4,),
        "linspace": (0, 1, 4),
        "logspace": (0, 1, 4),
        "eye": (3,),
        "hann_window": (4,),
        "hamming_window": (4,),
        "blackman_window": (4,),
        "bartlett_window": (4,),
        "kaiser_window": (4,),
        "tril_indices": (3, 3),
        "triu_indices": (3, 3),
        "range": (0, 4),
    }
    for name, arguments in sizes.items():
        yield Sample(name, getattr(torch, name), arguments)
    for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"):
        yield Sample(name, getattr(torch, name), (_r(2, 3),))
    yield Sample("full_like", torch.full_like, (_r(2, 3), 0.5))
    yield Sample("randint_like", torch.randint_like, (_r(2, 3), 5))
    yield Sample("nn.Parameter", torch.nn.Parameter, (_r(2, 3),), params=("data", "requires_grad"))
    yield Sample("nn.parameter.Parameter", torch.nn.Parameter, (_r(2, 3),), params=("data", "requires_grad"))
    yield Sample("autograd.Variable", torch.autograd.Variable, (_r(2, 3),), params=("data", "requires_grad"))
