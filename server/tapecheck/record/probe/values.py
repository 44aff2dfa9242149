"""Which tensors may be looked into, and digests of their values: the one place of the probe that reads them.

Values are read by torch's own operations, of tensors that are nothing but memory: not of a wrapper (a DTensor is asked
for its local tensor), a fake, functional or batched tensor, or one without storage or whose storage was freed; not
while a CUDA graph is captured, something is compiled, or a mode or a profiler of the program would see the operations.
"""

from __future__ import annotations

import sys
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:
    from torch import Tensor, UntypedStorage

_STEP = 64 << 20
"""Bytes of values that are read for each step of an optimizer, at most."""
ZEROS = 0
"""The digest of a tensor that holds nothing but zeros; no other tensor has it."""
_CHUNK, _FEW = 1 << 13, 256
_MASK = (1 << 64) - 1
_PRIME, _MIX = 0x100000001B3, 0x5851F42D4C957F2D
# Others may run what the program has queued up for later, or have no memory of their own.
_DEVICES = ("cpu", "cuda", "xpu", "mps")


def address_of(tensor: Tensor) -> int:
    """Return what identifies a tensor's storage while it is alive; 0 where it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, AttributeError, TypeError):
        return 0


def version_of(tensor: Tensor) -> int:
    """Return the version counter of a tensor; inference tensors have none."""
    try:
        return int(tensor._version)
    except (RuntimeError, AttributeError):
        return 0


def transforming(torch: ModuleType) -> Callable[[], bool]:
    """Return what tells whether a transform of torch.func runs in this thread.

    Not by their stack, where torch has another way: to ask for that makes one, which the engine then copies for each
    node that it comes to, as long as the thread lives.
    """
    active: Optional[Callable[[], bool]] = getattr(torch._C, "_are_functorch_transforms_active", None)
    if active is not None:
        return active
    peek = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)
    return lambda: peek() is not None


class TensorRef:
    """A weak reference to a tensor that may be followed at any time.

    The Python object of a tensor that only C++ still holds is kept for when it is wanted again; following a plain
    weak reference to it would leave torch believing that it is unused (`torch.utils.weak` does the same).
    """

    __slots__ = ("_reference",)

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def __call__(self) -> Optional[Tensor]:
        tensor = self._reference()
        if tensor is not None:
            fix = getattr(tensor, "_fix_weakref", None)
            if fix is not None:
                fix()
        return tensor


class Values:
    """Reads values of tensors, at most so many bytes until `allow` is called again."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.left = _STEP
        functorch = getattr(torch._C, "_functorch", None)
        self.transforms = transforming(torch)
        self._wrapped = getattr(functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
        self._modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
        self._profiled = getattr(torch._C._autograd, "_profiler_enabled", lambda: False)
        self._compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
        self._no_dispatch = torch.Tensor.__torch_dispatch__
        # No tensor: a program that goes through its live tensors finds none of the recorder's.
        self._weights: Optional[UntypedStorage] = None

    def allow(self, size: int = _STEP) -> None:
        """Let so many bytes be read from now on."""
        self.left = size

    def quiet(self) -> bool:
        """Return whether an operation of the recorder's would be seen by nothing of the program's now."""
        cuda = self.torch.cuda
        return (
            not self.transforms()
            and not self._modes()
            and not self._profiled()
            and not self._compiling()
            and not (cuda.is_initialized() and cuda.is_current_stream_capturing())
        )

    def has_memory(self, tensor: Tensor) -> bool:
        """Return whether a tensor's storage is its own memory, so that its size means something.

        Not that of a wrapper, which answers operations itself.
        """
        return type(tensor).__torch_dispatch__ is self._no_dispatch and tensor.device.type != "meta"

    def size_of(self, tensor: Tensor) -> int:
        """Return the bytes of a tensor's storage; 0 where it has no memory."""
        tensor = self.local(tensor)
        try:
            return int(tensor.untyped_storage().nbytes()) if self.has_memory(tensor) else 0
        except (RuntimeError, NotImplementedError, AttributeError, TypeError):
            return 0

    def local(self, tensor: Tensor) -> Tensor:
        """Return what a DTensor holds in this process, any other tensor itself."""
        placed = sys.modules.get("torch.distributed.tensor")
        if placed is not None and type(tensor) is getattr(placed, "DTensor", None):
            # Its attribute: `to_local` is an operation of autograd.
            return getattr(tensor, "_local_tensor", tensor)
        return tensor

    def readable(self, tensor: Tensor) -> bool:
        """Return whether the values of a tensor are plain memory, all of which is there."""
        torch = self.torch
        if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
            return False
        if (
            tensor.layout is not torch.strided or tensor.device.type not in _DEVICES or tensor.is_quantized
            or tensor.is_nested or tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor()
            or torch._is_functional_tensor(tensor) or self._wrapped(tensor)
        ):  # fmt: skip
            return False
        # FSDP and its like free the storage of a parameter that stays.
        last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        return tensor.numel() == 0 or bool(tensor.untyped_storage().nbytes() >= (last + 1) * tensor.element_size())

    def digest(self, tensor: Tensor) -> Optional[int]:
        """Return a digest of a tensor's values, `ZEROS` where all are zero, None where they are not to be read."""
        torch = self.torch
        if not self.quiet():
            return None
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                tensor = self.local(tensor)
                if not self.readable(tensor) or not tensor.numel():
                    return None
                size = tensor.numel() * tensor.element_size()
                if size > self.left:
                    return None
                self.left -= size
                held = tensor.detach()
                if held.device.type != "cpu":
                    # Nothing is allocated on the device: the program's memory stays what it is.
                    held = held.cpu()
                if not _dense(held):
                    held = held.contiguous()
                return self._digest(held)
        except (RuntimeError, NotImplementedError, TypeError):
            # A kind of tensor that this torch has no such operation for, or no room for the copy.
            return None

    def _digest(self, tensor: Tensor) -> int:
        """Return the sum of the values' bits, weighted by their places; in pieces, since each needs room."""
        torch, count = self.torch, tensor.numel()
        flat = tensor.as_strided((count,), (1,), tensor.storage_offset())
        # No wider: the sign of a number would count for one bit of its weight.
        bits = flat.view({1: torch.int8, 2: torch.int16}.get(flat.element_size(), torch.int32))
        if not flat[:_CHUNK].any() and not any(flat[at : at + _CHUNK].any() for at in range(_CHUNK, count, _CHUNK)):
            return ZEROS
        if bits.numel() <= _FEW:
            return hash(tuple(bits.tolist())) or 1
        found, weights = 1, self._weighing()
        for at in range(0, bits.numel(), _CHUNK):
            piece = bits[at : at + _CHUNK].to(torch.int64)
            found = (found * _PRIME + int(torch.dot(piece, weights[: piece.numel()]))) & _MASK
        # Told apart from zeros, of which negative ones have bits.
        return found or 1

    def _weighing(self) -> Tensor:
        """Return the weights of the places in a piece."""
        torch = self.torch
        if self._weights is None:
            made = torch.arange(1, _CHUNK + 1, dtype=torch.int64, device="cpu")
            for shift in (31, 29):
                made.mul_(_MIX).bitwise_xor_(made >> shift)
            self._weights = made.untyped_storage()
        return torch.empty(0, dtype=torch.int64, device="cpu").set_(self._weights, 0, (_CHUNK,), (1,))


def _dense(tensor: Tensor) -> bool:
    """Return whether all elements lie beside one another, in whatever order."""
    dense = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size > 1:
            if stride != dense:
                return False
            dense *= size
    return True


def is_learning_leaf(tensor: Tensor) -> bool:
    """Return whether a tensor is a leaf that requires grad; one of several views that may not be changed is none."""
    try:
        return bool(tensor.requires_grad and tensor.is_leaf)
    except RuntimeError:
        return False


def has_graph(tensor: Tensor) -> bool:
    """Return whether a tensor leads to a graph, without building a node.

    One is built where a view is asked that was changed in place.
    """
    try:
        if tensor._is_view() and tensor._version:
            return False
        return not tensor.is_leaf and tensor.grad_fn is not None
    except RuntimeError:
        return False
