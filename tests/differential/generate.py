"""A seeded generator of small training programs.

Every tensor of a program is 4 x 4 (`mat`), a scalar (`sca`) or a layer's hidden state, so that whatever is
combined fits; what a program does to graphs is left to chance. Each program draws a temper first: how careful it
is to detach and to use fresh values, how often it changes tensors in place, retains graphs, and so on. Variables
are the texts of places that can be assigned to: `h`, `self.h`, `state["h"]`, `box[0]`.

    python -m tests.differential.generate 7      # prints program 7
"""

# ruff: noqa: E501 -- pieces of programs read better unbroken
from __future__ import annotations

import functools
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tests.differential import lived, more_templates, states, templates
from tests.differential.forms import (
    ACTIVATIONS,
    BINARY,
    COMPARE,
    DETACH,
    IN_PLACE,
    LAYERS,
    OPTIMIZERS,
    PLAIN_LAYERS,
    REDUCE,
    SILENT_IN_PLACE,
    UNARY,
)

T = TypeVar("T")
DEFINITIONS = templates.DEFINITIONS + more_templates.DEFINITIONS
MODELS = templates.MODELS + more_templates.MODELS
PIECES = templates.PIECES + more_templates.PIECES + states.PIECES + lived.PIECES
_CHOICE = re.compile(r"«([^«»]*)»")
_NEW = re.compile(r"@([A-Za-z]\w*)")
_SLOT = re.compile(r"\$(model2|model|opt|par|data|mat|expr|loss|i)\b")
NAMES = {
    "mat": ("h", "x", "y", "out", "feat", "z", "pred", "mem", "hidden", "fake", "target", "mix", "prev", "emb", "res"),
    "sca": ("loss", "total", "penalty", "err", "cost", "d_loss", "g_loss", "reg", "aux", "score", "objective"),
    "par": ("w", "bias", "alpha", "theta", "scale", "delta"),
    "data": ("data", "inputs", "batch", "noise", "real", "ref"),
    "model": ("model", "net", "critic", "gen", "disc", "encoder", "head", "policy", "teacher"),
    "cell": ("cell", "core"), "rnn": ("rnn", "gru"), "lstm": ("lstm",), "opt": ("opt", "optimizer", "opt_d", "opt_g"),
    "mats": ("outputs", "states", "history", "feats"), "scas": ("losses", "terms", "log"), "num": ("running", "avg", "value"),
    "layer": ("attn", "enc", "norm", "block", "conv", "proj"), "flag": ("flag", "skip_it", "done", "warm"),
    "idx": ("i", "step", "t", "epoch", "k", "j"), "hid": ("hx", "hn"), "hc": ("carry", "hc"), "grad": ("g", "grads", "gx"),
}  # fmt: skip


@dataclass
class Temper:
    """What a program is inclined to, each between 0 and 1 unless said otherwise."""

    care: float
    detach: float
    in_place: float
    retain: float
    repeat: float
    branches: float
    grad_calls: float
    handlers: float
    pieces: float
    """How often a piece from the templates is used."""
    data: float
    """How often a condition hangs on the values of tensors or on chance."""
    size: int
    """Statements in the body of the main loop."""


@dataclass
class Scope:
    """What can be used at a place: for each kind, the texts of its variables."""

    names: dict[str, list[str]] = field(default_factory=dict)
    spent: set[str] = field(default_factory=set)
    indices: list[tuple[str, int]] = field(default_factory=list)
    helpers: list[tuple[str, str]] = field(default_factory=list)
    """(name, signature) with signature such as "mat->mat"."""

    def copy(self) -> Scope:
        return Scope(
            {kind: list(names) for kind, names in self.names.items()},
            set(self.spent),
            list(self.indices),
            list(self.helpers),
        )


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chance = self.random.random
        self.temper = Temper(
            care=1 - chance() ** 2 * 0.7,
            detach=self.pick((0.05, 0.2, 0.5)),
            in_place=self.pick((0.0, 0.3, 1.0, 2.5)),
            retain=self.pick((0.05, 0.3, 0.7)),
            repeat=self.pick((0.0, 0.1, 0.3)),
            branches=self.pick((0.0, 0.5, 1.5)),
            grad_calls=self.pick((0.0, 0.0, 0.5, 1.5)),
            handlers=self.pick((0.0, 0.0, 0.0, 0.7)),
            pieces=self.pick((0.0, 1.0, 1.0, 3.0)),
            data=self.pick((0.0, 0.0, 0.0, 0.15, 0.5)),
            size=self.random.randint(4, 11),
        )
        self.lines: list[str] = []
        self.depth = 0
        self.scope = Scope()
        self.used: set[str] = set()
        self.place = ""
        self.loops = 0
        self.no_grad = 0

    # -- small things ---------------------------------------------------------------------------------------

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def weighted(self, table: Sequence[tuple[float, T]]) -> T:
        return self.random.choices([item for _, item in table], [weight for weight, _ in table])[0]

    def write(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, header: str, *, keep: bool = False) -> Iterator[None]:
        """An indented block; what it binds is forgotten afterwards unless `keep`."""
        self.write(header)
        outside = self.scope
        self.scope = outside.copy()
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.write("pass")
        self.depth -= 1
        if keep:
            outside.names = self.scope.names
        outside.spent = self.scope.spent & {name for names in outside.names.values() for name in names}
        self.scope = outside

    def fresh(self, kind: str) -> str:
        """A new name of a kind, sometimes an attribute or an entry of a dict."""
        base = self.pick(NAMES[kind])
        name, number = base, 2
        while name in self.used:
            name, number = f"{base}{number}", number + 1
        self.used.add(name)
        return name

    def bind(self, kind: str, name: str) -> str:
        names = self.scope.names.setdefault(kind, [])
        if name not in names:
            names.append(name)
        self.scope.spent.discard(name)
        return name

    def all(self, kind: str) -> list[str]:
        return self.scope.names.get(kind, [])

    def some(self, kind: str) -> str | None:
        """A variable of a kind, most often one whose graph is still whole."""
        names = self.all(kind)
        whole = [name for name in names if name not in self.scope.spent]
        if whole and (len(whole) == len(names) or self.chance(self.temper.care)):
            # Later ones are nearer to what is being computed.
            return whole[max(self.random.randrange(len(whole)), self.random.randrange(len(whole)))]
        return self.pick(names) if names and not self.chance(self.temper.care) else None

    def spend(self) -> None:
        """After a backward: graphs that exist are likely to be freed."""
        for kind in ("mat", "sca", "hid", "hc"):
            self.scope.spent.update(self.all(kind))

    # -- expressions ----------------------------------------------------------------------------------------

    def constant(self) -> str:
        return self.pick(
            ("torch.randn(4, 4)", "torch.rand(4, 4)", "torch.ones(4, 4)", *self.all("data"), *self.all("data"))
        )

    def mat(self, depth: int = 2) -> str:
        """A 4 x 4 tensor."""
        options: list[tuple[float, Callable[[], str]]] = [(0.4, self.constant)]
        if self.all("mat"):
            options.append((4, lambda: self.some("mat") or self.constant()))
        if self.all("par"):
            options.append((1, lambda: self.pick(self.all("par"))))
        if depth > 0:
            inner = depth - 1
            if self.all("model"):
                options.append((3, lambda: f"{self.pick(self.all('model'))}({self.mat(inner)})"))
            if self.all("call"):
                options.append((1.5, lambda: self.pick(self.all("call")).replace("{0}", self.operand(inner))))
            options += [
                (2, lambda: self.pick(UNARY).format(self.operand(inner))),
                (2, lambda: self.pick(BINARY).format(self.operand(inner), self.operand(inner))),
                (2 * self.temper.detach, lambda: self.pick(DETACH).format(self.operand(inner))),
            ]
            if self.scope.indices and self.temper.branches:
                options.append((0.4 * self.temper.branches, lambda: self.conditional(inner)))
            for name, signature in self.scope.helpers:
                if signature == "mat->mat":
                    options.append((0.7, functools.partial(self.applied, name, inner)))
            if self.all("num"):
                options.append((0.3, lambda: f"{self.operand(inner)} * {self.pick(self.all('num'))}"))
            options.append((0.25, lambda: f"sum({self.operand(inner)} * k for k in range(1, 3))"))
            options.append((0.15, lambda: f"torch.stack([row * 2 for row in {self.operand(inner)}])"))
            options.append((0.15, lambda: f"(lambda v: {self.pick(UNARY).format('v')})({self.mat(inner)})"))
            if self.all("rnn"):
                options.append(
                    (0.7, lambda: f"{self.pick(self.all('rnn'))}({self.operand(inner)}.unsqueeze(1))[0].squeeze(1)")
                )
        return self.weighted(options)()

    def applied(self, helper: str, *depths: int) -> str:
        """A call of a helper with tensors of these depths."""
        return f"{helper}({', '.join([self.mat(depth) for depth in depths])})"

    def operand(self, depth: int) -> str:
        """A 4 x 4 tensor as part of a larger expression."""
        text = self.mat(depth)
        simple = text.replace("_", "").replace(".", "").isalnum() or (
            text.endswith(")") and " " not in text and text[0] != "-"
        )
        return text if simple or _call(text) else f"({text})"

    def conditional(self, depth: int) -> str:
        return f"({self.mat(depth)} if {self.condition()} else {self.mat(depth)})"

    def sca(self, depth: int = 2) -> str:
        """A scalar, most often a loss."""
        options: list[tuple[float, Callable[[], str]]] = [
            (3, lambda: self.pick(REDUCE).format(self.operand(depth))),
            (3, lambda: self.pick(COMPARE).format(self.operand(depth), self.operand(1))),
        ]
        if self.all("sca"):
            options.append((0.8, lambda: self.some("sca") or self.pick(REDUCE).format(self.operand(1))))
        if depth > 0:
            options += [
                (1, lambda: f"{self.sca(depth - 1)} + {self.pick(('', '0.1 * ', '0.5 * '))}{self.term(depth - 1)}"),
                (0.3, lambda: f"{self.term(depth - 1)} * {self.pick(('2', '0.5', '-1'))}"),
                (0.2, lambda: f"torch.stack([{self.sca(depth - 1)}, {self.sca(depth - 1)}]).mean()"),
            ]
            if self.all("model"):
                options.append((0.2, lambda: f"sum(p.pow(2).sum() for p in {self.parameters()})"))
            for name, signature in self.scope.helpers:
                if signature == "mat,mat->sca":
                    options.append((1, functools.partial(self.applied, name, depth - 1, 1)))
        return self.weighted(options)()

    def term(self, depth: int) -> str:
        text = self.sca(depth)
        return text if _call(text) or text.replace("_", "").replace(".", "").isalnum() else f"({text})"

    def parameters(self) -> str:
        options = [f"{model}.parameters()" for model in self.all("model") for _ in range(2)]
        options += [f"{model}.parameters()" for kind in ("cell", "rnn", "lstm", "layer") for model in self.all(kind)]
        if self.all("par"):
            options.append(f"[{', '.join(self.all('par'))}]")
        return self.pick(options)

    def condition(self) -> str:
        if self.temper.data and self.chance(self.temper.data):
            return self.data_condition()
        if not self.scope.indices:
            return self.pick(("True", "False", "len(shapes) > 1"))
        name, count = self.pick(self.scope.indices[-2:])
        return self.pick((
            f"{name} > 0", f"{name} % 2 == 0", f"{name} == 0", f"{name} < {count - 1}", f"{name} == {count - 1}",
            f"{name} % 2", f"not {name}", f"{name} >= 1", f"({name} + 1) % 2 == 0", f"{name} in (0, 2)", f"{name} != 1",
            f"{name} + 1 < {count}", f"{name}",
        ))  # fmt: skip

    def data_condition(self) -> str:
        """A condition that hangs on values, or on chance: nobody knows it before the program runs."""
        if self.all("flag") and self.chance(0.3):
            return self.pick((self.pick(self.all("flag")), f"not {self.pick(self.all('flag'))}"))
        options = ["random.random() < 0.5", "torch.rand(()) > 0.5", "torch.rand(1).item() > 0.3"]
        if self.all("mat"):
            name = self.pick(self.all("mat"))
            options += [
                f"{name}.sum() > 0",
                f"{name}.mean().item() > 0.1",
                f"{name}.detach().norm() < 2",
                f"float({name}[0, 0]) > 0",
            ]
        if self.all("sca"):
            name = self.pick(self.all("sca"))
            options += [f"{name} > 0.5", f"{name}.item() < 1", f"float({name}) > 0.3", f"{name}.detach() < 0.2"]
        return self.pick(options)

    def flag(self) -> None:
        """A condition on values, kept under a name."""
        condition = self.data_condition()
        self.write(f"{self.bind('flag', self.fresh('flag'))} = {condition}")

    # -- statements -----------------------------------------------------------------------------------------

    def statement(self, nesting: int = 0) -> None:
        temper = self.temper
        options: list[tuple[float, Callable[[], None]]] = [
            (3, self.assign_mat),
            (2, self.assign_sca),
            (0.9 + temper.repeat * 2, self.train),
            (0.3 + temper.repeat * 3, self.backward),
            (temper.in_place, self.in_place),
            (0.3 * temper.in_place, self.parameter_update),
            (0.3, self.collect),
            (0.3, self.consume),
            (0.3 * temper.branches, lambda: self.branch(nesting)),
            (0.15 + 0.2 * temper.branches, lambda: self.inner_loop(nesting)),
            (temper.grad_calls, self.grad_call),
            (temper.handlers, self.handler),
            (0.25, self.recurrent),
            (0.2, self.no_graph),
            (0.15, self.number),
            (0.2, self.odd),
            (0.3 * (temper.detach + 0.2), self.carry),
            (temper.pieces, self.piece),
            (temper.data, self.flag),
        ]
        if nesting >= 2:
            options = [(0 if action.__name__ == "<lambda>" else weight, action) for weight, action in options]
        self.weighted(options)()

    def assign_mat(self) -> None:
        text = self.mat(3)
        again = self.chance(0.35) and bool(self.all("mat"))
        name = self.pick(self.all("mat")) if again else self.fresh("mat")
        if not again and self.place and self.chance(0.3):
            name = f"{self.place}.{name}"
        if self.chance(0.08):
            self.write(f"{name}, {self.fresh('mat')} = {text}, {self.mat(2)}")
        else:
            self.write(f"{name} = {text}")
        self.bind("mat", name)

    def assign_sca(self) -> None:
        text = self.sca()
        again = self.chance(0.3) and bool(self.all("sca"))
        name = self.pick(self.all("sca")) if again else self.fresh("sca")
        if again and self.chance(0.5) and name not in self.scope.spent:
            self.write(f"{name} = {name} + {self.term(1)}" if self.chance(0.6) else f"{name} += {self.term(1)}")
        else:
            self.write(f"{name} = {text}")
        self.bind("sca", name)

    def retain(self) -> str:
        """Arguments of a backward."""
        if not self.chance(self.temper.retain):
            return ""
        options = ["retain_graph=True"] * 6 + ["retain_graph=False"]
        if self.scope.indices:
            options += [f"retain_graph={self.comparison()}", f"retain_graph=({self.comparison()})"]
        if self.temper.grad_calls:
            options += ["create_graph=True", "retain_graph=True, create_graph=True"]
        return self.pick(options)

    def comparison(self) -> str:
        name, count = self.scope.indices[-1]
        return self.pick(
            (f"{name} < {count - 1}", f"{name} != {count - 1}", f"{name} == 0", f"{name} > 0", f"{name} % 2 == 0")
        )

    def loss(self) -> str:
        """A scalar to run a backward from: a variable most often."""
        whole = [name for name in self.all("sca") if name not in self.scope.spent]
        if whole and self.chance(0.6):
            return self.pick(whole)
        if self.all("sca") and self.chance(self.temper.repeat):
            return self.pick(self.all("sca"))
        name = self.fresh("sca")
        self.write(f"{name} = {self.trained()}")
        return self.bind("sca", name)

    def trained(self) -> str:
        """A loss that goes through a model or a parameter for certain."""
        source = (
            f"{self.pick(self.all('model'))}({self.mat(1)})"
            if self.all("model")
            else f"({self.mat(1)} @ {self.pick(self.all('par'))})"
        )
        return (
            self.pick(COMPARE).format(source, self.operand(1)) if self.chance(0.6) else self.pick(REDUCE).format(source)
        )

    def run_backward(self) -> None:
        loss = self.loss()
        retain = self.retain()
        form = self.random.random()
        if form < 0.72:
            self.write(f"{loss}.backward({retain})")
        elif form < 0.8:
            other = self.loss()
            self.write(f"({loss} + {other}).backward({retain})")
        elif form < 0.85:
            self.write(f"torch.autograd.backward({loss}{', ' + retain if retain else ''})")
        elif form < 0.89:
            self.write(f"torch.autograd.backward([{loss}, {self.loss()}]{', ' + retain if retain else ''})")
        elif form < 0.93:
            name = self.some("mat")
            if name is None:
                self.write(f"{loss}.backward({retain})")
            else:
                self.write(f"{name}.backward(torch.ones(4, 4){', ' + retain if retain else ''})")
        elif form < 0.96 and self.all("par"):
            self.write(f"{loss}.backward(inputs=[{self.pick(self.all('par'))}]{', ' + retain if retain else ''})")
        else:
            fitting = [name for name, signature in self.scope.helpers if signature == "sca->step"]
            if self.place and self.chance(0.5):
                self.write(f"self.step({loss})")
            elif fitting:
                self.write(f"{self.pick(fitting)}({loss}{', retain=True' if 'True' in retain else ''})")
            else:
                self.write(f"({loss} * 0.5).backward({retain})")
        if "retain_graph=True" not in retain or self.chance(0.3):
            self.spend()

    def backward(self) -> None:
        self.run_backward()

    def train(self) -> None:
        """A loss, zero_grad, backward and step in one of the usual orders."""
        optimizer = self.pick(self.all("opt")) if self.all("opt") else None
        order = self.pick(("zbs", "zbs", "zbs", "bsz", "bs", "zb", "zbbs", "zbsb"))
        if self.chance(0.5):
            name = self.fresh("sca")
            self.write(f"{name} = {self.trained()}")
            self.bind("sca", name)
        for action in order:
            if action == "b":
                self.run_backward()
            elif action == "s" and optimizer:
                if self.chance(0.1):
                    self.write(f"torch.nn.utils.clip_grad_norm_({self.parameters()}, 1.0)")
                self.write(f"{optimizer}.step()")
            elif action == "z":
                self.zero_grad(optimizer)

    def zero_grad(self, optimizer: str | None) -> None:
        options = [f"{optimizer}.zero_grad()"] * 6 + [f"{optimizer}.zero_grad(set_to_none=False)"] if optimizer else []
        options += [f"{model}.zero_grad()" for model in self.all("model")[:1]]
        options += [f"{parameter}.grad = None" for parameter in self.all("par")[:1]]
        self.write(self.pick(options or ["pass"]))

    def target(self) -> str | None:
        names = self.all("mat")
        return self.pick(names) if names else None

    def in_place(self) -> None:
        form = self.random.random()
        if form < 0.06 and self.all("data"):
            self.write(self.pick(IN_PLACE).format(self.pick(self.all("data")), self.operand(1)))
            return
        if form < 0.12 and self.all("par"):
            name = self.pick(self.all("par"))
            text = self.pick(IN_PLACE).format(name, self.constant())
            self.write(text if self.chance(0.2) else f"with torch.no_grad(): {text}")
            return
        target = self.target()
        if target is None:
            return
        table = SILENT_IN_PLACE if form < 0.25 else IN_PLACE
        text = self.pick(table).format(target, self.operand(1))
        self.write(f"with torch.no_grad(): {text}" if self.chance(0.08) else text)

    def parameter_update(self) -> None:
        source = self.parameters()
        update = self.pick((
            "p.data -= 0.1 * p.grad", "p.data.add_(p.grad, alpha=-0.1)", "p.data.clamp_(-0.5, 0.5)",
            "p.data = p.data - 0.1 * p.grad", "p.mul_(0.99)", "p -= 0.1 * p.grad", "p.add_(p.grad, alpha=-0.1)",
            "p.grad.zero_()", "p.grad = None", "p.copy_(p * 0.9)", "p.grad.clamp_(-1, 1)", "p.grad.data.zero_()",
        ))  # fmt: skip
        header = self.pick(
            ("with torch.no_grad():", "with torch.no_grad():", "with torch.set_grad_enabled(False):", "if True:")
        )
        if "data" not in update and header == "if True:" and self.chance(0.7):
            header = "with torch.no_grad():"
        with self.block(header), self.block(f"for p in {source}:"):
            if "grad" in update:
                with self.block("if p.grad is not None:"):
                    self.write(update)
            else:
                self.write(update)

    def collect(self) -> None:
        kind = self.pick(("mats", "scas"))
        names = self.all(kind)
        if not names:
            return
        if kind == "mats":
            value = self.some("mat")
            value = value if value is not None and self.chance(0.7) else self.mat(2)
        else:
            value = self.some("sca")
            value = value if value is not None and self.chance(0.7) else self.sca(1)
        if self.chance(self.temper.detach):
            value = f"({value}).detach()"
        self.write(f"{self.pick(names)}.append({value})")

    def consume(self) -> None:
        kind = self.pick(("mats", "scas"))
        names = self.all(kind)
        if not names:
            return
        name = self.pick(names)
        if kind == "mats":
            text = self.pick((
                "torch.stack({0}).mean(0)", "sum({0})", "torch.cat({0})[:4]", "{0}[-1]", "{0}[0]", "sum(v * 0.5 for v in {0})",
                "torch.stack([v.detach() for v in {0}]).sum(0)", "torch.cat({0}, dim=1)[:, :4]", "torch.stack(list(reversed({0})))[0]",
                "torch.stack({0}[-2:]).mean(0)", "{0}[-1].detach()", "torch.stack([a * b for a, b in zip({0}, {0})]).sum(0)",
            )).format(name)  # fmt: skip
            target = self.fresh("mat")
        else:
            text = self.pick((
                "torch.stack({0}).sum()", "sum({0})", "torch.stack({0}).mean()", "sum({0}) / len({0})", "{0}[-1]",
                "torch.stack([v for v in {0}]).mean()", "sum(w * v for w, v in enumerate({0}, 1))", "sum({0}[-2:])",
            )).format(name)  # fmt: skip
            target = self.fresh("sca")
        with self.block(f"if {name}:" if self.chance(0.5) else f"if len({name}) > {self.pick((0, 1))}:"):
            self.write(f"{target} = {text}")
            if kind == "scas" and self.chance(0.5):
                self.write(f"{target}.backward({self.retain()})")
                if self.chance(self.temper.care):
                    self.write(f"{name}.clear()" if self.chance(0.6) else f"del {name}[:]")
            elif kind == "mats" and self.all("mat") and self.chance(0.6):
                self.write(f"{self.pick(self.all('mat'))} = {self.pick(UNARY).format(target)}")
            elif self.chance(0.5):
                self.bind("mat" if kind == "mats" else "sca", target)
                self.statement(2)

    def branch(self, nesting: int) -> None:
        with self.block(f"if {self.condition()}:"):
            for _ in range(self.random.randint(1, 2)):
                self.statement(nesting + 1)
        if self.chance(0.4):
            header = "else:" if self.chance(0.75) or not self.scope.indices else f"elif {self.condition()}:"
            with self.block(header):
                self.statement(nesting + 1)

    def inner_loop(self, nesting: int) -> None:
        self.loop(nesting + 1, self.random.randint(1, 3))

    def grad_call(self) -> None:
        loss = self.loss()
        inputs = (
            self.pick(self.all("par"))
            if self.all("par") and self.chance(0.6)
            else self.pick(self.all("mat") or self.all("par") or [""])
        )
        whole = self.all("model") and self.chance(0.4)
        if not inputs and not whole:
            return
        extra = self.pick(("", "", ", create_graph=True", ", retain_graph=True", ", create_graph=True, allow_unused=True", ", allow_unused=True",
                           ", retain_graph=True, allow_unused=True", ", create_graph=True, retain_graph=True"))  # fmt: skip
        if self.scope.indices and self.chance(0.15):
            extra = f", create_graph={self.comparison()}"
        name = self.fresh("grad")
        if whole:
            model = self.pick(self.all("model"))
            self.write(f"{name} = torch.autograd.grad({loss}, list({model}.parameters()){extra})")
            value = f"sum(v.pow(2).sum() for v in {name} if v is not None)"
        else:
            form = self.random.random()
            if form < 0.4:
                self.write(f"({name},) = torch.autograd.grad({loss}, {inputs}{extra})")
            elif form < 0.8:
                self.write(f"{name} = torch.autograd.grad({loss}, {inputs}{extra})[0]")
            else:
                self.write(f"{name} = torch.autograd.grad(outputs={loss}, inputs=[{inputs}]{extra})[0]")
            value = self.pick(
                ("{0}.pow(2).sum()", "({0}.norm(2, dim=1) - 1).pow(2).mean()", "{0}.sum()", "{0}.norm()")
            ).format(name)
        if "create" not in extra and "retain" not in extra:
            self.spend()
        if "allow_unused" in extra and not whole:
            with self.block(f"if {name} is not None:"):
                penalty = self.fresh("sca")
                self.write(f"{penalty} = {value}")
                if self.chance(0.5):
                    self.write(f"{penalty}.backward({self.retain()})")
            return
        if self.chance(0.75):
            penalty = self.bind("sca", self.fresh("sca")) if self.chance(0.5) else self.fresh("sca")
            self.write(f"{penalty} = {value}")
            if self.chance(0.5):
                self.write(
                    f"({loss} + {penalty}).backward({self.retain()})"
                    if self.chance(0.6)
                    else f"{penalty}.backward({self.retain()})"
                )
                self.spend()
            else:
                self.bind("sca", penalty)
        elif not whole and inputs in self.all("par"):
            self.write(f"{self.bind('mat', self.fresh('mat'))} = {inputs} - 0.1 * {name}")

    def handler(self) -> None:
        with self.block("try:"):
            self.run_backward()
            if self.chance(0.3):
                self.statement(2)
        with self.block(
            self.pick(("except RuntimeError:", "except Exception as error:", "except (RuntimeError, ValueError):"))
        ):
            name = self.target()
            if name and self.chance(0.5):
                self.write(f"{name} = {name}.detach()")
            elif self.chance(0.3) and self.loops:
                self.write("continue")
        if self.chance(0.2):
            with self.block("finally:"):
                self.write(f"shapes.append({self.pick(('1', '(4, 4)'))})")

    def recurrent(self) -> None:
        """A step of a cell, a layer over a sequence, with the hidden state carried."""
        options = [kind for kind in ("cell", "rnn", "lstm") if self.all(kind)]
        if not options:
            return
        kind = self.pick(options)
        module = self.pick(self.all(kind))
        if kind == "cell" and self.all("mat"):
            name = self.pick(self.all("mat"))
            self.write(f"{name} = {module}({self.mat(1)}, {name})")
            self.bind("mat", name)
        elif kind == "rnn" and self.all("hid"):
            state = self.pick(self.all("hid"))
            out = self.fresh("mat")
            self.write(f"{out}, {state} = {module}({self.operand(1)}.unsqueeze(1), {state})")
            self.write(f"{out} = {out}.squeeze(1)")
            self.bind("mat", out)
            if self.chance(self.temper.care):
                self.write(self.pick((f"{state} = {state}.detach()", f"{state}.detach_()", f"{state} = {state}.data")))
        elif kind == "lstm" and self.all("hc"):
            state = self.pick(self.all("hc"))
            out = self.fresh("mat")
            if self.chance(0.4):
                self.write(f"{out}, (a, c) = {module}({self.operand(1)}.unsqueeze(1), {state})")
                self.write(
                    self.pick(
                        (
                            f"{state} = (a.detach(), c.detach())",
                            f"{state} = (a.detach(), c)",
                            f"{state} = a, c",
                            f"{state} = (a.data, c.data)",
                        )
                    )
                )
            else:
                self.write(f"{out}, {state} = {module}({self.operand(1)}.unsqueeze(1), {state})")
                if self.chance(self.temper.care):
                    self.write(self.pick((f"{state} = tuple(s.detach() for s in {state})", f"{state} = [s.detach() for s in {state}]",
                                          f"{state} = tuple(map(lambda s: s.detach(), {state}))", f"for s in {state}: s.detach_()")))  # fmt: skip
            self.write(f"{out} = {out}[:, 0]")
            self.bind("mat", out)

    def no_graph(self) -> None:
        header = self.pick(("with torch.no_grad():", "with torch.no_grad():", "with torch.set_grad_enabled(False):",
                            "with torch.enable_grad():", "with torch.inference_mode():"))  # fmt: skip
        name = self.fresh("mat")
        if "inference" in header:
            with self.block(header):
                self.write(f"{name} = {self.mat(2)}")
            return
        with self.block(header, keep=True):
            self.write(f"{name} = {self.mat(2)}")
            if self.chance(0.3):
                self.assign_mat()
        self.bind("mat", name)

    def number(self) -> None:
        """A loss as a number of Python."""
        if not self.all("sca"):
            return
        source = self.pick(self.all("sca"))
        text = self.pick(("{0}.item()", "float({0})", "{0}.detach().item()", "{0}.detach()", "{0}.data", "{0}"))
        if self.all("num") and self.chance(0.7):
            self.write(f"{self.pick(self.all('num'))} += {text.format(source)}")
        else:
            self.write(f"{self.bind('num', self.fresh('num'))} = {text.format(source)}")

    def carry(self) -> None:
        """A state is detached, or not."""
        name = self.target()
        if name is None:
            return
        self.write(self.pick((
            f"{name} = {name}.detach()", f"{name} = {name}.detach()", f"{name} = {name}.data", f"{name} = {name}.clone()",
            f"{name} = {name}.detach().requires_grad_()", f"{name} = {name}.detach().clone()", f"{name} = {name} + 0",
            f"{name} = {name}.detach().requires_grad_(True)", f"{name} = Variable({name}.data)",
        )))  # fmt: skip
        self.bind("mat", name)

    def odd(self) -> None:
        """Something rarer."""
        name = self.target()
        options: list[Callable[[], None]] = []
        if name:
            options += [
                lambda: self.write(f"if {name}.requires_grad: {name}.register_hook(lambda g: g * 0.5)"),
                lambda: self.write(f"if {name}.requires_grad: {name}.retain_grad()"),
                lambda: self.alias(name),
                lambda: self.write(f"assert {name}.shape == (4, 4)"),
            ]
        if self.all("model"):
            model = self.pick(self.all("model"))
            copy = self.fresh("model")
            options += [
                lambda: self.twin(model, copy),
                lambda: self.write(f"{model}.{self.pick(('train()', 'eval()'))}"),
                lambda: self.write(f"{model}.requires_grad_({self.pick(('False', 'True'))})"),
                lambda: self.average(model),
            ]
        if options:
            self.pick(options)()

    def twin(self, model: str, name: str) -> None:
        """A copy of a model."""
        self.write(f"{name} = copy.deepcopy({model})")
        self.bind("model", name)

    def alias(self, name: str) -> None:
        """A second name for a tensor."""
        other = self.fresh("mat")
        self.write(f"{other} = {name}{self.pick(('', '', '[:]', '.view(4, 4)', '.detach()', '[:, :]'))}")
        spent = name in self.scope.spent
        self.bind("mat", other)
        if spent:
            self.scope.spent.add(other)

    def average(self, model: str) -> None:
        """A target network follows."""
        other = self.pick(self.all("model"))
        form = self.random.random()
        if model != other:
            # Only copies are sure to have parameters of the same shapes.
            other = self.fresh("model")
            self.twin(model, other)
        with (
            self.block("with torch.no_grad():" if form < 0.7 else "if True:"),
            self.block(f"for p, q in zip({model}.parameters(), {other}.parameters()):"),
        ):
            self.write("p.mul_(0.9).add_(q, alpha=0.1)" if form < 0.5 else "p.data.copy_(0.9 * p.data + 0.1 * q.data)")

    # -- templates ------------------------------------------------------------------------------------------

    def piece(self) -> None:
        """Lines from the templates, in a block of their own names."""
        text = self.fill(self.pick(PIECES))
        if text is not None:
            for line in text.strip("\n").split("\n"):
                self.write(line)
            self.spend()

    def fill(self, template: str) -> str | None:
        """The text of a template; None where it needs what is not in scope."""
        while (found := _CHOICE.search(template)) is not None:
            template = template[: found.start()] + self.pick(found[1].split("|")) + template[found.end() :]
        names: dict[str, str] = {}
        for name in sorted(set(_NEW.findall(template))):
            fresh, number = name, 2
            while fresh in self.used:
                fresh, number = f"{name}{number}", number + 1
            self.used.add(fresh)
            names[name] = fresh
        template = _NEW.sub(lambda match: names[match[1]], template)
        chosen: dict[str, str] = {}
        for kind in sorted(set(_SLOT.findall(template))):
            if kind == "expr":
                chosen[kind] = self.operand(2)
            elif kind == "loss":
                chosen[kind] = self.trained() if self.all("model") or self.all("par") else ""
            elif kind == "i":
                chosen[kind] = self.scope.indices[-1][0] if self.scope.indices else ""
            elif kind == "model2":
                chosen[kind] = self.all("model")[-1] if self.all("model") else ""
            else:
                chosen[kind] = self.pick(self.all(kind)) if self.all(kind) else ""
        if not all(chosen.values()):
            return None
        return _SLOT.sub(lambda match: chosen[match[1]], template).replace("%%", "@")

    # -- loops ----------------------------------------------------------------------------------------------

    def loop(self, nesting: int, size: int) -> None:
        count = self.random.randint(2, 4 if nesting == 0 else 3)
        index = self.fresh("idx")
        form = self.weighted(
            [(6, "range"), (1.5, "enumerate"), (1, "zip"), (1, "while"), (0.8, "data"), (0.7, "batches")]
        )
        item = self.fresh("data")
        before = ""
        if form == "range":
            header = f"for {index} in range({count}):"
        elif form == "enumerate":
            header = f"for {index}, {item} in enumerate([torch.randn(4, 4) for _ in range({count})]):"
        elif form == "zip":
            header = f"for {index}, {item} in zip(range({count}), torch.randn({count}, 4, 4)):"
        elif form == "while":
            self.write(f"{index} = {'0' if self.chance(0.8) else '-1 + 1'}")
            header = f"while {index} < {count}:"
            before = f"{index} += 1"
        elif form == "data":
            header = f"for {item} in torch.randn({count}, 4, 4):"
        else:
            source = next((name for name, signature in self.scope.helpers if signature == "batches"), None)
            header = (
                f"for {index}, {item} in enumerate({source}({count})):" if source else f"for {index} in range({count}):"
            )
            form = "enumerate" if source else "range"
        if self.temper.care > self.random.random():
            self.spend()
        keep = self.chance(0.7)
        with self.block(header, keep=keep and nesting == 0):
            self.loops += 1
            if form in ("enumerate", "zip", "data"):
                self.bind("data", item)
            if form == "while":
                self.scope.indices.append((f"({index} - 1)", count))
                self.write(before)
            elif form != "data":
                self.scope.indices.append((index, count))
            for _ in range(size):
                self.statement(nesting)
            if nesting == 0 or self.chance(0.3):
                self.end_of_iteration()
            if self.chance(0.06 * self.temper.branches):
                self.write(f"if {self.condition()}: {self.pick(('break', 'continue'))}")
                if self.chance(0.7):
                    self.train()
            self.loops -= 1

    def end_of_iteration(self) -> None:
        """What is carried into the next iteration is detached by those who take care."""
        for name in list(self.all("mat")):
            if name in self.carried and self.chance(self.temper.care * 0.8):
                self.write(self.pick((f"{name} = {name}.detach()", f"{name} = {name}.detach()", f"{name} = {name}.data",
                                      f"{name} = {name}.detach().clone()", f"{name} = {self.constant()}")))  # fmt: skip
                self.scope.spent.discard(name)
        for kind in ("mats", "scas"):
            for name in self.all(kind):
                if self.chance(self.temper.care * 0.6):
                    self.write(f"{name}.clear()")

    # -- definitions ----------------------------------------------------------------------------------------

    carried: set[str] = set()

    def model_class(self, name: str) -> None:
        """A module of its own with layers, a state, a buffer or a hook, 4 x 4 to 4 x 4."""
        state = self.pick(("", "", "", "h", "h", "outs", "memory", "buffer", "count", "buffer"))
        layers = [self.layer() for _ in range(self.random.randint(1, 3))]
        parameter = self.chance(0.3)
        residual = self.chance(0.3)
        with self.block(f"class {name}(nn.Module):"):
            with self.block("def __init__(self):"):
                self.write("super().__init__()")
                for number, (constructor, _) in enumerate(layers):
                    self.write(f"self.l{number} = {constructor}")
                if parameter:
                    self.write(
                        self.pick(
                            ("self.gain = nn.Parameter(torch.ones(4))", "self.gain = nn.Parameter(torch.randn(4, 4))")
                        )
                    )
                if state in ("h", "memory"):
                    self.write(
                        f"self.{state} = torch.zeros(4, 4)"
                        if state == "h" or self.chance(0.5)
                        else "self.memory = None"
                    )
                elif state == "outs":
                    self.write("self.outs = []")
                elif state == "buffer":
                    self.write("self.register_buffer('avg', torch.zeros(4))")
                elif state == "count":
                    self.write("self.count = 0")
                self.write(f"self.act = {self.pick(ACTIVATIONS)}")
            with self.block("def forward(self, x):"):
                self.forward(layers, state, parameter, residual)
            if state == "h" and self.chance(0.5):
                with self.block("def reset(self):"):
                    self.write(
                        self.pick(("self.h = self.h.detach()", "self.h = torch.zeros(4, 4)", "self.h.detach_()"))
                    )
                self.resettable.add(name)
        self.write("")

    def made_model(self) -> None:
        """A class of a model from the templates."""
        text = self.fill(self.pick(MODELS))
        assert text is not None
        for line in text.strip("\n").split("\n"):
            self.write(line)
        self.classes.append(re.findall(r"^class (\w+)", text, re.MULTILINE)[-1])
        self.write("")

    def layer(self) -> tuple[str, str]:
        """A layer: its constructor and how it is called."""
        return (self.pick(PLAIN_LAYERS[:8]), "{m}({0})") if self.chance(0.4) else self.pick(LAYERS)

    def forward(self, layers: list[tuple[str, str]], state: str, parameter: bool, residual: bool) -> None:
        if residual:
            self.write("skip = x")
        if state == "memory":
            with self.block("if self.memory is None:"):
                self.write("self.memory = torch.zeros(4, 4)")
        for number, (_, call) in enumerate(layers):
            self.write(f"x = {call.replace('{m}', f'self.l{number}').replace('{0}', 'x')}")
            if self.chance(0.4):
                self.write(
                    self.pick(
                        (
                            "x = self.act(x)",
                            "x = F.relu(x)",
                            "x = torch.tanh(x)",
                            "x = F.dropout(x, 0.2, self.training)",
                            "x = F.relu_(x)",
                        )
                    )
                )
            if self.chance(0.1 * self.temper.in_place):
                self.write(self.pick(IN_PLACE).format("x", "x"))
        if parameter:
            self.write(
                self.pick(("x = x * self.gain", "x = x + self.gain", "x *= self.gain", "x = self.gain * x.tanh()"))
            )
        if state == "h":
            self.write(
                self.pick(
                    (
                        "h = torch.tanh(x + self.h)",
                        "h = x + self.h.detach()",
                        "h = 0.5 * self.h + x",
                        "h = x * self.h + 1",
                    )
                )
            )
            self.write(self.pick(("self.h = h", "self.h = h.detach()", "self.h = h.data", "self.h = h.clone()")))
            self.write("x = h")
        elif state == "memory":
            self.write(self.pick(("self.memory = self.memory + x", "self.memory += x", "self.memory = x.detach()", "self.memory = 0.9 * self.memory + 0.1 * x.detach()",
                                  "self.memory[0] = x[0]", "self.memory[0] = x[0].detach()", "self.memory.copy_(x.detach())")))  # fmt: skip
            self.write(self.pick(("x = x * self.memory", "x = x + self.memory", "x = x @ self.memory")))
        elif state == "outs":
            self.write(self.pick(("self.outs.append(x)", "self.outs.append(x.detach())", "self.outs = [x]")))
            self.write(
                self.pick(
                    (
                        "x = x + self.outs[-1]",
                        "x = torch.stack(self.outs).mean(0)",
                        "x = sum(self.outs)",
                        "x = self.outs[0] * x",
                    )
                )
            )
        elif state == "buffer":
            with self.block(self.pick(("if self.training:", "with torch.no_grad():", "if self.training:"))):
                self.write(self.pick(("self.avg.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)", "self.avg += x.detach().mean(0)", "self.avg = 0.9 * self.avg + 0.1 * x.mean(0)",
                                      "self.avg.copy_(x.detach().mean(0))", "self.avg = 0.9 * self.avg + 0.1 * x.detach().mean(0)", "self.avg.lerp_(x.data.mean(0), 0.1)")))  # fmt: skip
            self.write(self.pick(("x = x - self.avg", "x = x * self.avg", "x = x / (self.avg.abs() + 1)")))
        elif state == "count":
            self.write("self.count += 1")
            with self.block(self.pick(("if self.count > 1:", "if self.count % 2 == 0:", "if self.count == 1:"))):
                self.write(self.pick(("x = x.detach()", "x = x * 2", "x = self.act(x)")))
        if residual:
            self.write(self.pick(("x = x + skip", "x += skip", "x = x * skip", "return x + skip")))
        self.write(self.pick(("return self.act(x)", "return x", "return x.clone()")))

    def helper(self) -> None:
        """A function at the top level."""
        if self.chance(0.5 if self.temper.pieces else 0.1):
            signature, template = self.pick(DEFINITIONS)
            text = self.fill(template)
            assert text is not None
            lines = text.strip("\n").split("\n")
            for line in lines:
                self.write(line)
            self.write("")
            last = [line for line in lines if line and line[0] != " "][-1]
            name = last.split(" = ")[0] if " = " in last.split("(")[0] else re.findall(r"def (\w+)", last)[0]
            self.scope.helpers.append((name, signature))
            return
        name = self.pick(("helper", "compute", "apply_all", "prepare", "update", "make"))
        while name in self.used:
            name += "_more"
        self.used.add(name)
        form = self.pick(
            (
                "mat->mat",
                "mat->mat",
                "mat,mat->sca",
                "mat,mat->sca",
                "sca->step",
                "batches",
                "closure",
                "nograd",
                "counter",
            )
        )
        outside = self.scope
        self.scope = Scope({"data": list(outside.names.get("data", []))})
        if form in ("mat->mat", "nograd", "counter"):
            if form == "nograd":
                self.write(self.pick(("@torch.no_grad()", "@torch.no_grad()", "@torch.enable_grad()")))
            if form == "counter":
                self.write(f"{name}_calls = 0")
            with self.block(f"def {name}(v):"):
                self.bind("mat", "v")
                if form == "counter":
                    self.write(f"global {name}_calls")
                    self.write(f"{name}_calls += 1")
                    with self.block(f"if {name}_calls % 2:"):
                        self.write(f"return {self.mat(2)}")
                elif self.chance(0.5):
                    self.write(f"v = {self.mat(2)}")
                self.write(f"return {self.mat(2)}")
            signature = "mat->mat"
        elif form == "mat,mat->sca":
            with self.block(f"def {name}(a, b{self.pick(('', '=None')) if False else ''}):"):
                self.bind("mat", "a")
                self.bind("mat", "b")
                if self.chance(0.5):
                    self.write(f"a = {self.mat(2)}")
                self.write(f"return {self.sca(1)}")
            signature = form
        elif form == "sca->step":
            with self.block(f"def {name}(value, retain=False):"):
                self.write(
                    self.pick(
                        (
                            "value.backward(retain_graph=retain)",
                            "torch.autograd.backward(value, retain_graph=retain)",
                            "value.backward(None, retain)",
                        )
                    )
                )
                if self.chance(0.4):
                    self.write("return value.item()")
            signature = form
        elif form == "batches":
            with self.block(f"def {name}(count):"):
                self.write("state = torch.zeros(4, 4)")
                with self.block("for _ in range(count):"):
                    self.write(
                        self.pick(
                            (
                                "state = torch.randn(4, 4)",
                                "state = state + torch.randn(4, 4)",
                                "state += 1",
                                "state = state * 0.5 + torch.rand(4, 4)",
                            )
                        )
                    )
                    self.write("yield state")
            signature = form
        else:
            with self.block(f"def {name}_factory(k):"):
                if self.chance(0.5):
                    self.write("memory = torch.zeros(4, 4)")
                    with self.block("def inner(v):"):
                        self.write("nonlocal memory")
                        self.write(
                            self.pick(
                                (
                                    "memory = memory + v",
                                    "memory = memory + v.detach()",
                                    "memory = v",
                                    "memory = 0.5 * memory + v.detach()",
                                )
                            )
                        )
                        self.write(self.pick(("return memory * k", "return v * memory", "return memory.tanh()")))
                else:
                    with self.block("def inner(v):"):
                        self.bind("mat", "v")
                        self.write(f"return {self.operand(2)} * k")
                self.write("return inner")
            self.write(f"{name} = {name}_factory({self.pick((0.5, 1, 2))})")
            signature = "mat->mat"
        self.write("")
        self.scope = outside
        self.scope.helpers.append((name, signature))

    # -- a whole program ------------------------------------------------------------------------------------

    resettable: set[str]

    def setup(self, prefix: str) -> None:
        """Models, parameters, optimizers and state that lives through the loops."""

        def place(kind: str) -> str:
            name = self.fresh(kind)
            return self.bind(kind, f"{prefix}{name}" if prefix else name)

        for kind in self.classes:
            self.write(f"{place('model')} = {kind}()")
        for _ in range(self.random.randint(0 if self.classes else 1, 2)):
            layers = [
                self.pick((*PLAIN_LAYERS, *ACTIVATIONS[: self.pick((12, 99))]))
                for _ in range(self.random.randint(1, 3))
            ]
            self.write(f"{place('model')} = nn.Sequential({', '.join(['nn.Linear(4, 4)', *layers])})")
        for _ in range(self.pick((0, 0, 1, 1, 2))):
            made = self.pick(
                (
                    "torch.randn(4, 4, requires_grad=True)",
                    "nn.Parameter(torch.randn(4, 4))",
                    "torch.zeros(4, 4).requires_grad_()",
                    "torch.ones(4, 4, requires_grad=True)",
                )
            )
            self.write(f"{place('par')} = {made}")
        for _ in range(self.random.randint(1, 2)):
            self.write(f"{place('data')} = torch.{self.pick(('randn', 'rand'))}(4, 4)")
        for _ in range(self.pick((0, 0, 1, 2))):
            constructor, call = self.pick(LAYERS)
            name = place("layer")
            self.write(f"{name} = {constructor}")
            self.bind("call", call.replace("{m}", name))
        if self.chance(0.2):
            self.write(f"{place('cell')} = {self.pick(('nn.GRUCell(4, 4)', 'nn.RNNCell(4, 4)'))}")
        if self.chance(0.15):
            self.write(f"{place('rnn')} = {self.pick(('nn.GRU(4, 4)', 'nn.RNN(4, 4)'))}")
            self.write(f"{place('hid')} = torch.zeros(1, 1, 4)")
            self.write(f"{self.all('hid')[-1]} = {self.all('hid')[-1]}.expand(1, 1, 4).clone()")
        if self.chance(0.15):
            self.write(f"{place('lstm')} = nn.LSTM(4, 4)")
            self.write(f"{place('hc')} = (torch.zeros(1, 1, 4), torch.zeros(1, 1, 4))")
        for _ in range(self.pick((1, 1, 2))):
            self.write(f"{place('opt')} = {self.pick(OPTIMIZERS).format(self.optimized())}")
        for _ in range(self.pick((0, 0, 1, 1, 2))):
            form = self.pick(("plain", "plain", "dict", "list", "attribute", "dataclass", "module", "class", "nested"))
            name = self.fresh("mat")
            value = self.pick(("torch.zeros(4, 4)", "torch.randn(4, 4)", "torch.ones(4, 4)", self.mat(2)))
            if form == "dict":
                self.write(f"{prefix}{name}_state = {{'{name}': {value}}}")
                text = f"{prefix}{name}_state['{name}']"
            elif form == "list":
                self.write(f"{prefix}{name}_box = [{value}]")
                text = f"{prefix}{name}_box[0]"
            elif form == "dataclass":
                self.write("@dataclass")
                self.write(f"class {name.title()}State:")
                self.write(f"    {name}: torch.Tensor = None")
                self.write("    steps: int = 0")
                self.write(f"{prefix}{name}_at = {name.title()}State({value})")
                text = f"{prefix}{name}_at.{name}"
            elif form == "module" and self.all("model"):
                text = f"{self.pick(self.all('model'))}.{name}"
                self.write(f"{text} = {value}")
            elif form == "class":
                self.write(f"class {name.title()}Holder:")
                self.write(f"    {name} = {value if not prefix else 'torch.zeros(4, 4)'}")
                if prefix:
                    self.write(f"{prefix}{name}_holder = {name.title()}Holder")
                text = f"{prefix}{name}_holder.{name}" if prefix else f"{name.title()}Holder.{name}"
            elif form == "nested":
                self.write(f"{prefix}{name}_tree = {{'inner': [{value}, None]}}")
                text = f"{prefix}{name}_tree['inner'][0]"
            elif form == "attribute":
                self.write(f"{prefix}{name}_ns = SimpleNamespace({name}={value})")
                text = f"{prefix}{name}_ns.{name}"
            else:
                text = f"{prefix}{name}"
                self.write(f"{text} = {value}")
            self.carried.add(self.bind("mat", text))
        if self.chance(0.3):
            self.write(f"{place('mats')} = []")
        if self.chance(0.3):
            self.write(f"{place('scas')} = []")
        if self.chance(0.25):
            self.write(f"{place('sca')} = {self.pick(('torch.zeros(())', 'torch.tensor(0.0)', self.sca(1)))}")
        if self.chance(0.2):
            self.write(f"{place('num')} = 0.0")
        if self.all("model") and self.chance(0.1):
            model = self.pick(self.all("model"))
            kept = self.fresh("mats")
            self.write(f"{kept} = []")
            self.write(
                f"{model}.register_forward_hook(lambda module, args, output: {kept}.append(output{self.pick(('', '.detach()'))}))"
            )
            self.bind("mats", kept)

    def optimized(self) -> str:
        if self.chance(0.25) and len(self.all("model")) > 1:
            return " + ".join(f"list({model}.parameters())" for model in self.all("model")[:2])
        return self.parameters()

    def program(self) -> str:
        """The whole text."""
        self.carried, self.resettable, self.classes = set(), set(), []
        for line in ("import collections", "import contextlib", "import copy", "import functools", "import random", "from dataclasses import dataclass",
                     "from types import SimpleNamespace", "", "import torch", "import torch.nn.functional as F", "import torch.utils.checkpoint",
                     "from torch import nn", "from torch.autograd import Variable", "", "torch.manual_seed(0)",
                     "labels = torch.tensor([0, 1, 2, 3])", "ref_data = torch.rand(4, 4)", "criterion = nn.MSELoss()", "shapes = []", ""):  # fmt: skip
            self.write(line)
        for name in self.pick(((), ("Net",), ("Net",), ("Net", "Critic"))):
            if self.temper.pieces and self.chance(0.5):
                self.made_model()
            else:
                self.model_class(name)
                self.classes.append(name)
        for _ in range(self.pick((0, 1, 1, 2))):
            self.helper()
        form = self.weighted([(5, "flat"), (2, "function"), (2, "class")])
        if form == "flat":
            self.setup("")
            self.body()
        elif form == "function":
            with self.block("def main():"):
                self.setup("")
                kept = [name for kind in ("model", "par", "cell", "rnn", "lstm", "layer") for name in self.all(kind)]
                self.body()
                self.write(f"return [{', '.join(kept)}]")
            self.write("")
            self.write("result = main()")
        else:
            self.trainer()
        return "\n".join(self.lines) + "\n"

    def trainer(self) -> None:
        """State on self, the loop in a method."""
        self.place = "self"
        with self.block("class Trainer:"):
            with self.block("def __init__(self):", keep=True):
                self.setup("self.")
            self.write("")
            with self.block("def step(self, value):"):
                if self.all("opt"):
                    self.zero_grad(self.pick(self.all("opt")))
                self.write(f"value.backward({self.pick(('', '', 'retain_graph=True'))})")
                if self.all("opt"):
                    self.write(f"{self.pick(self.all('opt'))}.step()")
            self.write("")
            with self.block("def run(self):"):
                self.body()
        self.write("")
        self.write("trainer = Trainer()")
        self.write("trainer.run()")

    def body(self) -> None:
        for _ in range(self.pick((0, 0, 0, 1, 2))):
            self.pick((self.assign_mat, self.assign_sca))()
        if self.chance(0.9):
            for _ in range(self.pick((1, 1, 1, 2))):
                self.loop(0, self.temper.size if self.chance(0.8) else 3)
        else:
            for _ in range(self.temper.size):
                self.statement(1)
        if self.chance(0.25):
            self.statement(1)


def _call(text: str) -> bool:
    """Whether a text is one call or name with trailing calls, so that a method can follow it."""
    depth = 0
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0 and character in " -+*/@":
            return False
    return True


def generate(seed: int) -> str:
    """The program of a seed, always the same one."""
    return Writer(seed).program()


if __name__ == "__main__":
    print(generate(int(sys.argv[1])))
