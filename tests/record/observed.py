"""Runs a program and prints all of it that a recorder could change, after what the program itself prints.

    python observed.py PROGRAM

A digest of every parameter, gradient, buffer and tensor that the program's variables lead to, of its optimizers' states
and of the generators of random numbers; every allocation and release of a tensor's memory, in their order, from which
follow the peak and the moment at which each tensor died; how many tensors only a collection of cycles can free.
"""

import gc
import hashlib
import random
import runpy
import sys
import threading

import torch
from torch.autograd.profiler import profile


def digest(space):
    """A digest of the tensors that a module's variables lead to, and how many there are."""
    found = hashlib.sha256()
    count = 0

    def add(name, tensor):
        nonlocal count
        count += 1
        value = tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach()
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.requires_grad}".encode())
        found.update(value.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        if tensor.is_leaf and tensor.grad is not None:
            add(name + ".grad", tensor.grad)

    def visit(name, value, depth):
        if isinstance(value, torch.Tensor):
            add(name, value)
        elif isinstance(value, torch.nn.Module):
            for part, tensor in [*value.named_parameters(), *value.named_buffers()]:
                add(f"{name}.{part}", tensor)
        elif isinstance(value, torch.optim.Optimizer):
            for number, state in enumerate(value.state.values()):
                visit(f"{name}[{number}]", state, depth)
        elif isinstance(value, (list, tuple)) and depth < 3:
            for number, item in enumerate(value):
                visit(f"{name}[{number}]", item, depth + 1)
        elif isinstance(value, dict) and depth < 3:
            for key, item in value.items():
                visit(f"{name}[{key!r}]", item, depth + 1)
        elif isinstance(value, (int, float, str)):
            found.update(f"{name} {value!r}".encode())

    for name, value in sorted(space.items()):
        if not name.startswith("__"):
            visit(name, value, 0)
    found.update(torch.get_rng_state().numpy().tobytes())
    found.update(repr(random.getstate()).encode())
    return found.hexdigest(), count


def tensors():
    return sum(1 for value in gc.get_objects() if isinstance(value, torch.Tensor))


def main():
    program = sys.argv[1]
    sys.argv[:] = [program]
    gc.collect()
    gc.disable()
    random.seed(0)
    space, error = {}, None
    with profile(use_kineto=True, profile_memory=True) as profiler:
        try:
            space = runpy.run_path(program, run_name="__main__")
        except Exception as caught:
            # Kept without the frames that it came through: those keep tensors.
            error = caught.with_traceback(None)
        alive = tensors()
        gc.collect()
        left = tensors()
    memory = [event.nbytes() for event in profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for size in memory:
        held += size
        peak = max(peak, held)
    order = hashlib.sha256(repr(memory).encode()).hexdigest()
    print("tensors", *digest(space))
    print("memory", len(memory), "changes, peak", peak, "bytes, in the end", held, order)
    print("alive", alive, "after a collection", left, "threads", threading.active_count())
    if error is not None:
        raise error


main()
