"""Runs a program and prints all of it that a recorder could change, after what the program itself prints.

    python observed.py PROGRAM

A digest of every parameter, gradient, buffer and tensor that the program's variables lead to, of its optimizers' states
and of the generators of random numbers; every allocation and release of a tensor's memory, in their order, from which
follow the peak and the moment at which each tensor died; how many tensors only a collection of cycles can free.
Releases without an allocation between them are one moment: autocast's cache lets go of its copies in the order of the
addresses of the originals, which differs from run to run.
"""

import gc
import hashlib
import itertools
import random
import runpy
import sys
import threading

import torch
from torch.autograd.profiler import profile


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
    runs = itertools.groupby(memory, lambda size: size > 0)
    memory = [size for allocated, run in runs for size in (run if allocated else sorted(run))]
    order = hashlib.sha256(repr(memory).encode()).hexdigest()
    # Imported late: the recorder looks at other gradients where the sources that run name them, as this one does.
    from digest import digest

    print("tensors", *digest(space))
    print("memory", len(memory), "changes, peak", peak, "bytes, in the end", held, order)
    print("alive", alive, "after a collection", left, "threads", threading.active_count())
    if error is not None:
        raise error


main()
