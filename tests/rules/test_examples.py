"""The examples of the rules' pages: what real torch does with them, and what the dry run says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tapecheck.check import check
from tapecheck.rules import ALL, Example, Rule
from tapecheck.source import from_text

EXAMPLES = [
    pytest.param(rule, example, id=f"{rule.code}-{kind}-{number}")
    for rule in ALL
    for kind, examples in (("valid", rule.page.valid), ("invalid", rule.page.invalid))
    for number, example in enumerate(examples, 1)
]

# All programs run in one process that imports torch once; each is forked, so that none sees another's state.
RUNNER = """
import gc, json, os, sys, traceback
import torch, torch.nn, torch._dynamo, torch.nn.parallel
sys.path.append(os.getcwd())
from tools.torchlab import replayed
torch.set_num_threads(1)
# What torch imports at the first use of an optimizer is imported once, before the forks.
torch.optim.Adam([torch.zeros(1, requires_grad=True)]).zero_grad()
gc.collect()
gc.freeze()
for number, program in enumerate(json.load(sys.stdin)):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        answer = [None, None]
        replayed.install(program)
        try:
            exec(compile(program, "example.py", "exec"), {"__name__": "__main__"})
        except BaseException as error:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == "example.py"]
            answer = [str(error), frames[-1].lineno if frames else None]
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    print(json.dumps(json.loads(text) if text else ["died", None]), flush=True)
"""


ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
"""A program that starts a process group is the only process in it: `test_wrapped.py` runs such programs with two."""


@cache
def under_torch() -> dict[str, list[Any]]:
    """For each program the message and the line of its exception, or None for both."""
    programs = list(dict.fromkeys(parameter.values[1].program for parameter in EXAMPLES))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RUNNER],
        input=json.dumps(programs),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", **ALONE},
        cwd=Path(__file__).parents[2],
        check=True,
    )
    return dict(zip(programs, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_torch_does_what_the_page_says(rule: Rule, example: Example) -> None:
    message, line = under_torch()[example.program]
    if example.raises is None:
        assert message is None
    else:
        assert message is not None
        assert message.startswith(example.raises)
        assert line == example.line


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_the_dry_run_finds_it_and_nothing_else(rule: Rule, example: Example) -> None:
    findings = check(from_text(example.program, "example.py")).findings
    wanted = [] if example.line is None else [(rule.code, example.line, not example.possible)]
    assert [(finding.code, finding.span.line, finding.certain) for finding in findings] == wanted
