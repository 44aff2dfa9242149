"""Parsing in several threads at once: Python 3.11's parser then fails now and then for no fault of the text."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapecheck.source.parsing import parse, parse_expression

THREADS = """
import gc, sys, threading, time
from tapecheck.source.parsing import parse

# What lets other threads run while a tree is built: a collection that runs Python code.
gc.callbacks.append(lambda phase, info: sum(range(50)))
gc.set_threshold(50)
sys.setswitchinterval(1e-6)
text = "import torch\\nw = torch.randn(3, requires_grad=True)\\nw.exp().sum().backward()\\n" * 20
failed = []


def work(depth, end):
    if depth:
        return work(depth - 1, end)
    while time.monotonic() < end:
        try:
            parse(text)
        except SystemError as error:
            failed.append(str(error))


threads = [threading.Thread(target=work, args=(3 * number, time.monotonic() + 1.5)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("; ".join(failed[:3]) or 0)
"""


FORKS = """
import os, signal, sys, threading
from tapecheck.source.parsing import parse

text = "x = f(1, [2, 3])\\n" * 5000
done = False


def work():
    while not done:
        parse(text)


thread = threading.Thread(target=work)
thread.start()
try:
    for _ in range(10):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            parse("x = 1")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
finally:
    done = True
    thread.join()
"""


def test_threads_do_not_disturb_one_another() -> None:
    server = Path(__file__).parent.parent.parent / "server"
    done = subprocess.run(
        [sys.executable, "-c", THREADS], cwd=server, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_is_wrong_with_a_text_is_raised() -> None:
    assert isinstance(parse("x = 1"), ast.Module)
    assert isinstance(parse_expression("x"), ast.Name)
    with pytest.raises(SyntaxError):
        parse("x = ")
    with pytest.raises(SyntaxError):
        parse_expression("x = 1")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_while_others_parse_can_parse() -> None:
    server = Path(__file__).parent.parent.parent / "server"
    done = subprocess.run(
        [sys.executable, "-c", FORKS], cwd=server, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
