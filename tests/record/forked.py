"""Runs many programs in children forked from one process that has torch loaded, which takes longer than most of them.

    python forked.py JOBS.json

A job is {"argv": [...], "output": PATH}: a script with its arguments, or the probe with its own.
"""

import gc
import json
import os
import runpy
import sys
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer imports it
import torch.autograd.profiler
import torch.distributions
import torch.func
import torch.utils.checkpoint


def main():
    # What torch's modules made is no program's: collections that leave it out take milliseconds.
    gc.collect()
    gc.freeze()
    for job in json.loads(Path(sys.argv[1]).read_text()):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        for stream in (1, 2):
            os.dup2(os.open(job["output"] + f".{stream}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.argv[:] = job["argv"]
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")
        return


assert torch.get_num_threads()
main()
