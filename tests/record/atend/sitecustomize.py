"""Writes what a process has at its end: digests of its parameters and of its generator's state. See `transparent`."""

from __future__ import annotations

import atexit
import gc
import hashlib
import os
import sys
from typing import Any


def _bytes(tensor: Any) -> bytes:
    import torch

    value = tensor.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()
    size = value.untyped_storage().nbytes()
    if torch._is_functional_tensor(value) or size < value.numel() * value.element_size():
        # A wrapper, or a storage that was let go: what is read there is whatever lies in memory.
        return b"%d" % size
    return bytes(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())


def _digest(tensor: Any) -> str:
    try:
        return f"{tuple(tensor.shape)} {tensor.dtype} {hashlib.sha256(_bytes(tensor)).hexdigest()}"
    except Exception as error:
        # No plain memory: fakes, meta tensors, wrappers.
        return f"{tuple(tensor.shape)} {tensor.dtype} {type(error).__name__}"


def _write() -> None:
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return
    gc.collect()
    tensors = [value for value in gc.get_objects() if issubclass(type(value), torch.Tensor)]
    lines = sorted(_digest(value) for value in tensors if isinstance(value, torch.nn.Parameter))
    lines.append(_digest(torch.get_rng_state()))
    with open(os.environ["AT_END"], "a") as file:
        file.write(" ".join(lines) + "\n")


if "AT_END" in os.environ:
    # The first function that is registered is called last.
    atexit.register(_write)
