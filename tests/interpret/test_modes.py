"""Modes are programs: what only another value of an option starts is run, whichever way the option is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.cli import main
from tapecheck.source import from_text

HEAD = """\
import torch
from torch import nn
from torch.nn import functional as F

def make():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

def train(model, steps):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def predict(model, count=8):
    outputs = []
    for _ in range(count):
        outputs.append(model(torch.randn(5, 4)))
    return torch.cat(outputs).argmax(1)

"""
KEPT = HEAD[: HEAD.index("outputs.append")].count("\n") + 1
TWO_MODES = """\
model = make()
if {mode} == "train":
    train(model, 5)
elif {mode} == "predict":
    print(predict(model))
"""
PARSED = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="train")
args = parser.parse_args()
"""
PROGRAMS = {
    "argparse": PARSED + TWO_MODES.format(mode="args.mode"),
    "two ifs": PARSED + TWO_MODES.format(mode="args.mode").replace("elif", "if"),
    "three modes": PARSED
    + TWO_MODES.format(mode="args.mode").replace("elif", 'elif args.mode == "export":\n    print(model)\nelif'),
    "in": PARSED
    + TWO_MODES.format(mode="args.mode").replace('args.mode == "predict"', 'args.mode in ("eval", "predict")'),
    "a flag": PARSED.replace('"--mode", default="train"', '"--predict", action="store_true"')
    + "model = make()\nif args.predict:\n    print(predict(model))\nelse:\n    train(model, 5)\n",
    "environment": 'import os\nMODE = os.environ.get("MODE", "train")\n' + TWO_MODES.format(mode="MODE"),
    "sys.argv": 'import sys\nmodel = make()\nif sys.argv[1] == "predict":\n    predict(model)\n'
    "else:\n    train(model, 5)\n",
    "tyro": "from dataclasses import dataclass\nimport tyro\n@dataclass\nclass Config:\n    mode: str = 'train'\n"
    "config = tyro.cli(Config)\n" + TWO_MODES.format(mode="config.mode").replace("elif", "if"),
    "hydra": "import hydra\n@hydra.main(config_path='conf')\ndef main(cfg):\n    model = make()\n"
    "    if cfg.mode == 'train':\n        train(model, 5)\n"
    "    elif cfg.mode == 'predict':\n        predict(model)\nmain()\n",
    "click": "import click\n@click.group()\ndef cli():\n    pass\n@cli.command()\ndef fit():\n    train(make(), 5)\n"
    "@cli.command()\ndef sample():\n    print(predict(make()))\nif __name__ == '__main__':\n    cli()\n",
    "typer": "import typer\napp = typer.Typer()\n@app.command()\ndef fit(steps: int = 5):\n    train(make(), steps)\n"
    "@app.command()\ndef sample(count: int = 4):\n    print(predict(make(), count))\n"
    "if __name__ == '__main__':\n    app()\n",
    "fire": "import fire\nclass Runner:\n    def __init__(self):\n        self.model = make()\n"
    "    def fit(self):\n        train(self.model, 5)\n    def sample(self):\n        return predict(self.model)\n"
    "if __name__ == '__main__':\n    fire.Fire(Runner)\n",
    "a table": "def one(args):\n    train(make(), 5)\ndef two(args):\n    print(predict(make()))\n"
    + PARSED
    + "{'train': one, 'predict': two}[args.mode](args)\n",
    "subcommands": "def one(args):\n    train(make(), 5)\ndef two(args):\n    print(predict(make()))\n"
    "import argparse\nparser = argparse.ArgumentParser()\ncommands = parser.add_subparsers()\n"
    "commands.add_parser('train').set_defaults(func=one)\ncommands.add_parser('predict').set_defaults(func=two)\n"
    "args = parser.parse_args()\nargs.func(args)\n",
}


def kept_in(text: str) -> list[tuple[str, int]]:
    report = check(from_text(text, "modes.py"))
    assert report.interpretation.faults == []
    return [(finding.code, finding.span.line) for finding in report.findings]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_mode_that_is_not_the_default_is_run(program: str) -> None:
    assert kept_in(HEAD + program) == [("TAPE201", KEPT)]


COMMANDS = frozenset(("subcommands",))
"""Those that are functions of their own, chosen by no condition, and are handed on to whoever calls them."""


@pytest.mark.parametrize(("name", "program"), PROGRAMS.items(), ids=PROGRAMS.keys())
def test_nothing_is_said_where_the_other_mode_records_nothing(name: str, program: str) -> None:
    assert kept_in(HEAD.replace("def predict", "@torch.no_grad()\ndef predict") + program) == []
    detached = HEAD.replace(
        "outputs.append(model(torch.randn(5, 4)))", "outputs.append(model(torch.randn(5, 4)).detach())"
    )
    # The loop builds graphs all the same, which nothing uses: that mode is run as well.
    assert kept_in(detached + program) == ([] if name in COMMANDS else [("TAPE302", KEPT - 1)])


def test_a_command_that_is_given_its_model_is_not_judged_by_a_guess() -> None:
    program = "def sample(model):\n    return predict(model)\n"
    assert kept_in(HEAD + program) == []


def test_what_a_command_returns_may_be_trained_on() -> None:
    """A rollout that nobody calls here: whoever does may walk what it hands back."""
    collect = HEAD.replace("torch.cat(outputs).argmax(1)", "outputs")
    assert kept_in(collect + "def rollout():\n    return predict(make())\n") == []


def test_the_mode_is_named_at_the_finding() -> None:
    report = check(from_text(HEAD + PROGRAMS["argparse"], "modes.py"))
    (finding,) = report.findings
    assert "this happens where `args.mode == 'predict'` is true" in [label.message for label in finding.labels]


MANY = tuple("abcdefgh")


def test_every_mode_is_run_before_what_its_flags_do(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each of many modes samples in a function of its own, which differentiates under flags."""
    flag = "".join(
        f"        if args.flag == {n}:\n            x = torch.ones(4, requires_grad=True)\n"
        "            outputs.append(torch.autograd.grad(model(x).sum(), x, retain_graph=True)[0])\n"
        for n in range(3)
    )
    sample = HEAD[HEAD.index("def predict") :].replace("count):\n", f"count):\n{flag}", 1)
    samples = "".join(sample.replace("predict", f"predict_{mode}") for mode in MANY)
    chosen = "elif ".join(f"args.mode == '{mode}':\n    print(predict_{mode}(model))\n" for mode in MANY)
    parsed = PARSED.replace("train", "a").replace("args = ", "parser.add_argument('--flag', type=int)\nargs = ")
    text = HEAD[: HEAD.index("def predict")] + parsed + samples + "model = make()\nif " + chosen
    (tmp_path / "modes.py").write_text(text)
    main(["debug", "trace", str(tmp_path / "modes.py")])
    turned = re.findall(r"^way \d+: .*line (\d+)$", capsys.readouterr().out, re.MULTILINE)
    asked = [number for number, line in enumerate(text.splitlines(), 1) if "args.mode ==" in line]
    assert set(map(int, turned[: len(MANY) - 1])) <= set(asked), turned


FUNCTION = """\
import torch


class Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        out = torch.zeros(x.shape[0], requires_grad=True)
        for row in range(x.shape[0]):
            {change}
        ctx.save_for_backward(x, weight)
        return out
"""


def test_autograd_runs_the_forward_of_a_function_without_recording() -> None:
    change = "out[row] = x[row] @ weight"
    assert check(from_text(FUNCTION.format(change=change), "ops.py")).findings == []
    recorded = f"with torch.enable_grad():\n                {change}"
    (finding,) = check(from_text(FUNCTION.format(change=recorded), "ops.py")).findings
    assert finding.code == "TAPE104"


SWITCHES = {
    f"{home}.{mode}": mode
    for home in ("torch", "torch.autograd", "torch.autograd.grad_mode")
    for mode in ("no_grad()", "enable_grad()", "inference_mode()", "inference_mode(False)", "set_grad_enabled(False)")
}
USES = {
    "TAPE106": "print(net(x).numpy())",
    "TAPE104": "net.weight.mul_(2)",
    "TAPE201": "for _ in range(5):\n    kept.append(net(x))",
    "TAPE302": "for _ in range(5):\n    total += net(x).sum().item()",
}


@pytest.mark.parametrize("code", USES)
@pytest.mark.parametrize("written", SWITCHES)
def test_each_name_of_a_switch_switches(written: str, code: str) -> None:
    torch = pytest.importorskip("torch")
    with eval(written, {"torch": torch}):
        records = torch.is_grad_enabled()
    head = "import torch\n\nnet, x, kept, total = torch.nn.Linear(2, 1), torch.ones(2), [], 0.0\n"
    program = f"{head}with {written}:\n" + "".join(f"    {line}\n" for line in USES[code].splitlines())
    found = check(from_text(program, "train.py")).findings
    assert [one.certain for one in found if one.code == code] == [True] * records, program


@pytest.mark.parametrize("code", USES)
@pytest.mark.parametrize(
    "asked", ["torch.set_grad_enabled(hidden.on)", "torch.inference_mode(hidden.on())", "hidden.off"]
)
def test_a_switch_that_hidden_code_decides_makes_nothing_certain(asked: str, code: str) -> None:
    head = "import torch\nimport hidden\n\nnet, x, kept, total = torch.nn.Linear(2, 1), torch.ones(2), [], 0.0\n"
    program = f"{head}with {asked}:\n" + "".join(f"    {line}\n" for line in USES[code].splitlines())
    found = check(from_text(program, "train.py")).findings
    assert not [one for one in found if one.certain], program
