"""Runs a program under the probe once for each of some functions of it, which raise from a moment on.

    python faults.py JOBS.json

A job is {"function": NAME, "moment": NAME, "probed": BOOL, "argv": [...], "output": PATH}. All are children of one
process that has torch loaded. A program says by `faults.reach(MOMENT)` how far it is. Without jobs the names of the
functions are printed.
"""

import json
import os
import resource
import runpy
import signal
import sys
import types
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer imports it

PACKAGE = "_tapecheck_probe"
SECONDS, BYTES = 60, 16 << 30


RAISING = "def raises(*args, **words):\n    import faults\n    raise faults.Fault('broken')\n"


class Fault(Exception):
    """What a broken function of the probe raises."""


def functions(package):
    """Return the functions and methods of the probe, by name."""
    found = {}
    for name, module in list(sys.modules.items()):
        if not name.startswith(package + "."):
            continue
        short = name.rpartition(".")[2]
        for value in list(vars(module).values()):
            if getattr(value, "__module__", None) != name:
                continue
            kind = isinstance(value, type)
            members = dict(vars(value)) if kind else {value.__name__: value} if callable(value) else {}
            owner = value.__name__ + "." if kind else ""
            for member, function in members.items():
                function = getattr(function, "fget", None) or getattr(function, "__func__", function)
                function = getattr(function, "__wrapped__", function)
                if isinstance(function, types.FunctionType) and not function.__code__.co_freevars:
                    found[f"{short}.{owner}{member}"] = function
    return found


def run(job, probe):
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    for stream in (1, 2):
        os.dup2(os.open(f"{job['output']}.{stream}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    faults = sys.modules["faults"] = types.ModuleType("faults")
    broken = functions(PACKAGE)[job["function"]] if job["function"] else None

    def reach(moment):
        if moment == job["moment"] and broken is not None:
            space = {}
            exec(compile(RAISING, broken.__code__.co_filename, "exec"), space)
            broken.__code__ = space["raises"].__code__

    faults.Fault = Fault
    faults.reach = reach
    sys.argv[:] = job["argv"]
    if job["probed"]:
        probe.main()
    else:
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")


def main():
    jobs = json.loads(Path(sys.argv[1]).read_text())
    space = runpy.run_path(sys.argv[2], run_name="probe")
    probe = space["_load"]()
    if not jobs:
        print(json.dumps(sorted(functions(PACKAGE))))
        return
    for job in jobs:
        child = os.fork()
        if not child:
            run(job, probe)
            return
        _, status = os.waitpid(child, 0)
        Path(job["output"] + ".status").write_text(str(os.waitstatus_to_exitcode(status)))


assert torch.get_num_threads()
main()
