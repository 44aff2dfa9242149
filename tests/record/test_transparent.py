"""A program does the same with and without the recorder, bit for bit: output, errors, exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tapecheck.record.run import PROBE
from tapecheck.tape import Backward, End, read_tape
from tests.record import transparent
from tests.record.harness import PYTHON, Write, plain, probed

DIGEST = """
import hashlib, random, torch
def digest(*tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().numpy().tobytes())
    h.update(torch.get_rng_state().numpy().tobytes())
    h.update(repr(random.getstate()).encode())
    return h.hexdigest()
"""

TRAINING = """
import random, torch
from torch import nn
from digest import digest

torch.manual_seed(3)
random.seed(3)


def mlp():
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(6):
        loss = model(torch.randn(8, 6)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), random.random())
        optimizer.step()
        losses.append(loss)
    return digest(*model.parameters(), *losses)


def rnn():
    cell, head = nn.LSTM(4, 8, batch_first=True, dropout=0.3, num_layers=2), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1, momentum=0.9)
    state = None
    for chunk in range(5):
        out, state = cell(torch.randn(3, 7, 4), state)
        state = tuple(s.detach() for s in state)
        optimizer.zero_grad(set_to_none=False)
        head(out).pow(2).mean().backward()
        optimizer.step()
    return digest(*cell.parameters(), *state)


def higher_order():
    w = torch.randn(4, 1, requires_grad=True)
    x = torch.randn(8, 4)
    for step in range(3):
        g, = torch.autograd.grad((x @ w).pow(4).sum(), w, create_graph=True)
        h, = torch.autograd.grad(g.pow(2).sum(), w)
        with torch.no_grad():
            w -= 1e-5 * h
    return digest(w, torch.func.grad(lambda v: (x @ v).pow(2).sum())(w.detach()))


print(mlp(), rnn(), higher_order())
"""

CALLBACKS = '''
import gc, threading, weakref, torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
counts = {}


def count(name):
    counts[name] = counts.get(name, 0) + 1


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        count("forward")
        ctx.save_for_backward(x)
        ctx.variable = "a user's own attribute"
        return x * x

    @staticmethod
    def backward(ctx, g):
        count("backward")
        x, = ctx.saved_tensors
        return 2 * x * g


class Tagged(torch.Tensor):
    """Every torch function and property of this class goes through here."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        count("torch function")
        return super().__torch_function__(function, types, args, kwargs or {})


net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
alive = []
for reentrant in (False, True):
    for i in range(4):
        x = torch.randn(2, 3, requires_grad=True)
        pack, unpack = lambda t: (count("pack"), t)[1], lambda t: (count("unpack"), t)[1]
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = Square.apply(net(x))
        y = checkpoint(lambda v: (count("checkpoint"), net(v))[1], y, use_reentrant=reentrant)
        y.register_hook(lambda g: count("hook"))
        loss = y.sum() + x.as_subclass(Tagged).sum()
        loss.backward()
        alive.append(weakref.ref(loss))
        del y, loss, x
        print(i, [r() is None for r in alive], gc.isenabled())
print(counts)
loader = DataLoader(TensorDataset(torch.arange(6.0)), batch_size=2, num_workers=1)
print([float(b[0].sum()) for b in loader])

results = {}


def work(seed):
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(3, generator=generator).requires_grad_()
    for _ in range(5):
        (w * torch.randn(3, generator=generator)).pow(2).sum().backward()
    results[seed] = w.grad.tolist()


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results.items()), threading.active_count())
'''

FAILING = """
import atexit, inspect, os, pickle, sys, traceback, warnings, torch
import sibling

atexit.register(lambda: print("at exit", file=sys.stderr))


class Point:
    pass


def again(loss):
    loss.backward()


if __name__ == "__main__":
    print(sys.argv, __file__, sys.path[0], __name__, __package__, __spec__, __doc__, os.getcwd())
    print(sorted(name for name in globals() if name.startswith("__")))
    print(inspect.getsource(again), pickle.loads(pickle.dumps(Point())).__class__)
    print(sys.modules["__main__"].Point is Point)
    print(sibling.where())
    w = torch.ones(2, requires_grad=True)
    loss = (w * w).sum()
    again(loss)
    try:
        again(loss)
    except RuntimeError:
        traceback.print_exc()
    for i in range(2):
        warnings.warn("once")
    try:
        w += 1
    except RuntimeError as error:
        print(type(error), error, error.__dict__)
    try:
        loss.item().backward()
    except AttributeError as error:
        raise ValueError("the user's own") from error
    finally:
        print("finally")
"""


@pytest.fixture
def files(write: Write) -> Write:
    write(DIGEST, "digest.py")
    write("import os\ndef where():\n    return os.path.basename(__file__)\n", "sibling.py")
    return write


def _same(script: str, *args: str, cwd: Path) -> str:
    without = plain(script, *args, cwd=str(cwd))
    with_recorder = probed(script, *args, cwd=str(cwd))
    assert with_recorder.stdout == without.stdout
    assert with_recorder.stderr == without.stderr
    assert with_recorder.returncode == without.returncode
    with (cwd / "tape.jsonl").open(encoding="utf-8") as file:
        tape = read_tape(file)
    end = tape.events[-1]
    assert isinstance(end, End)
    assert "recorder failed" not in end.detail
    return without.stdout


def test_training_gives_the_same_bits(files: Write, tmp_path: Path) -> None:
    assert len(_same(files(TRAINING), cwd=tmp_path).split()) == 3


def test_hooks_run_as_often_and_tensors_die_as_early(files: Write, tmp_path: Path) -> None:
    printed = _same(files(CALLBACKS), cwd=tmp_path)
    assert "[True, True, True, True, True, True, True, True]" in printed


def test_tracebacks_and_main_module_are_pythons_own(files: Write, tmp_path: Path) -> None:
    files(FAILING, "failing.py")
    assert "finally" in _same("failing.py", "--flag", "a b", cwd=tmp_path)


@pytest.mark.parametrize(
    "ending",
    [
        "raise SystemExit(3)",
        "sys.exit('a message')",
        "os._exit(7)",
        "raise KeyboardInterrupt",
        "x = 1 +",
        "os.kill(os.getpid(), 9)",
        "sys.excepthook = lambda *parts: print('own hook', parts[0].__name__); 1 / 0",
    ],
)
def test_exit_codes(files: Write, tmp_path: Path, ending: str) -> None:
    # No torch is needed to end: these start fast.
    script = files(f"import os, sys\nprint('start', flush=True)\n{ending}\n")
    without, recorded = plain(script, cwd=str(tmp_path)), probed(script, cwd=str(tmp_path))
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (
        without.stdout, without.stderr, without.returncode,
    )  # fmt: skip


def test_the_probe_is_a_directory_that_needs_nothing_else(write: Write, tmp_path: Path) -> None:
    bare = tmp_path / "bare" / "anything"
    shutil.copytree(PROBE.parent, bare, ignore=shutil.ignore_patterns("__pycache__"))
    script = write("import sys\nprint(sys.argv, sys.path[0], 'tapecheck' in sys.modules)\n")
    expected = f"{[script, '-x']} {tmp_path} False\n"
    for start in ([str(bare)], [str(bare / "__main__.py")], ["-m", "anything"]):
        done = subprocess.run(
            [PYTHON, *start, "--tape", "tape", script, "-x"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(bare.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)
        with (tmp_path / "tape").open() as file:
            assert read_tape(file).complete


MODULE = """
import os, sys
from .. import words
print(__name__, __package__, __spec__.name, sys.argv, sys.orig_argv[1:], sorted(globals()))
raise LookupError(words.split())
"""


def test_a_module_is_run_as_python_runs_it(write: Write, tmp_path: Path) -> None:
    (tmp_path / "package" / "inner").mkdir(parents=True)
    write("", "package/__init__.py")
    write("def split(): return 'own'\n", "package/words.py")
    write("", "package/inner/__init__.py")
    write(MODULE, "package/inner/train.py")
    command = ["-m", "package.inner.train", "--lr", "a b"]
    without, recorded = (
        subprocess.run([PYTHON, *start, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        for start in ([], [str(PROBE), "--tape", str(tmp_path / "tape")])
    )
    assert "runpy" in without.stderr
    assert (recorded.stdout, recorded.stderr, recorded.returncode) == (without.stdout, without.stderr, 1)


def test_modules_of_the_program_have_the_names_of_pythons_own(write: Write, tmp_path: Path) -> None:
    write("def split(text): return 'own ' + text\n", "shlex.py")
    (tmp_path / "json").mkdir()
    write("value = 3\n", "json/__init__.py")
    script = write("import shlex, json\nprint(shlex.split('x'), json.value)\n")
    for way in (plain, probed):
        assert way(script, cwd=str(tmp_path)).stdout == "own x 3\n"


IMPORTS = """
import sys, traceback, warnings
sys.path.insert(0, "site-packages")
warnings.simplefilter("always")
for name in ("warns", "broken", "missing", "absent", "library"):
    try:
        module = __import__(name)
    except Exception:
        traceback.print_exc()
print(getattr(sys.gettrace, "__wrapped__", sys.gettrace)() is None, plugin_ran := len(module.plugin.kept))
"""
PLUGIN = """
import torch
kept = []
for step in range(4):
    kept.append((torch.ones(2, requires_grad=True) * 2).sum())
    kept[-1].backward()
"""


def test_a_library_is_imported_without_events_and_a_plugin_with_them(write: Write, tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    write("import warnings\nwarnings.warn('old', stacklevel=2)\n", "warns.py")
    write("def fail(): raise ValueError('broken')\nfail()\n", "site-packages/broken.py")
    write("import broken\n", "missing.py")
    write(
        "import sys, plugin\nprint(getattr(sys.gettrace, '__wrapped__', sys.gettrace)() is None, sys.gettrace())\n",
        "site-packages/library.py",
    )
    write(PLUGIN, "plugin.py")
    script = write(IMPORTS)
    without, recorded = (way(script, cwd=str(tmp_path)) for way in (plain, probed))
    assert "No module named 'absent'" in without.stderr and "broken.py" in without.stderr
    assert recorded.stderr == without.stderr
    assert recorded.stdout.splitlines()[0] == "True None"
    with (tmp_path / "tape.jsonl").open() as file:
        walked = [event for event in read_tape(file).events if isinstance(event, Backward)]
    assert [event.at.span.line for event in walked] == [5] * 4 and walked[0].at.span.file.endswith("plugin.py")


def test_the_command_says_which_program_does_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "same.py").write_text("import torch\nopen('left', 'w').write('x')\nraise SystemExit(4)\n")
    (tmp_path / "other.py").write_text("import sys\nopen('left', 'w').write(str(sys._getframe().f_back is None))\n")
    text = "import sys, torch\ntorch.manual_seed(0)\nw = torch.nn.Linear(2, 2)\nw.weight.data.fill_(CALLER)\n"
    (tmp_path / "trained.py").write_text(text.replace("CALLER", "sys._getframe().f_back is None"))
    assert transparent.main([str(tmp_path / "same.py")]) == 0
    assert transparent.main([str(tmp_path / "trained.py")]) == 1
    assert "differs trained.py  parameters at the end" in capsys.readouterr().out
    assert transparent.main([str(tmp_path / "other.py"), "--", "an-argument"]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == ["differs other.py  left", "1 programs, 1 of them another"]
