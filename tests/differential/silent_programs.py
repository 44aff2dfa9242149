"""A seeded generator of training programs as people write them, in which something may go wrong without an exception.

A program is a task (classification, a GAN, an actor and a critic, ...), a style (a script, functions, a trainer class),
and many small decisions, some of which are mistakes: where gradients are cleared, what the optimizer was given, how the
model keeps its layers, whether evaluation records graphs. Nothing here says which decisions are mistakes:
`silent_truth` measures that.

    python -m tests.differential.silent_programs 7      # prints program 7
"""

# ruff: noqa: E501 -- pieces of programs read better unbroken
from __future__ import annotations

import random
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass
class Names:
    """What things are called in one program."""

    model: str
    optimizer: str
    loss: str
    x: str
    y: str
    out: str
    criterion: str
    scaler: str


@dataclass
class Draft:
    """A program that is being written: definitions, what is set up, what one step does, what comes after."""

    imports: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    """What is done once, with the names that the step uses."""
    state: list[str] = field(default_factory=list)
    """Names of the set-up that a trainer class keeps on `self`."""
    step: list[str] = field(default_factory=list)
    evaluation: list[str] = field(default_factory=list)
    between: list[str] = field(default_factory=list)
    """What is done between epochs."""
    batch: tuple[str, str] = ("torch.randn(4, 6)", "torch.randint(0, 3, (4,))")
    counts: bool = False
    """Whether the step asks which number it has, as `i`."""


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.pick
        self.care = pick((0.5, 0.75, 0.9))
        """How often a decision is the one that is right as a rule."""
        self.names = Names(
            pick(("model", "net", "m", "classifier")), pick(("optimizer", "opt", "optim_", "sgd")),
            pick(("loss", "total_loss", "cost")), *pick((("x", "y"), ("inputs", "targets"), ("data", "label"))),
            pick(("out", "logits", "pred")), pick(("criterion", "loss_fn", "crit")), pick(("scaler", "grad_scaler")),
        )  # fmt: skip
        self.draft = Draft()

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def right(self, right: Sequence[T], wrong: Sequence[T]) -> T:
        """Return one of the usual choices, or, as often as this program is careless, one of the others."""
        return self.pick(right) if self.chance(self.care) else self.pick(wrong)

    # -- models ---------------------------------------------------------------------------------------------

    def model(self) -> str:
        """Define a model of 6 inputs and 3 outputs; return the expression that makes it."""
        makers: tuple[Callable[[], str], ...] = (
            self._sequential, self._plain_class, self._plain_class, self._branches, self._two_stage, self._checkpointed,
            self._flagged, self._extra_head, self._lazy, self._embedding, self._registered_late, self._recurrent,
        )  # fmt: skip
        return self.pick(makers)()

    def _class(self, name: str, init: str, forward: str, *, more: str = "", arguments: str = "self") -> str:
        base = self.pick(("nn.Module", "nn.Module", "torch.nn.Module"))
        start = self.pick(("super().__init__()", f"super({name}, self).__init__()"))
        parts = [f"class {name}({base}):", f"    def __init__({arguments}):", f"        {start}"]
        parts += textwrap.indent(textwrap.dedent(init).strip(), " " * 8).splitlines()
        if more:
            parts += ["", *textwrap.indent(textwrap.dedent(more).strip(), " " * 4).splitlines()]
        parts += ["", "    def forward(self, x):"]
        parts += textwrap.indent(textwrap.dedent(forward).strip(), " " * 8).splitlines()
        self.draft.definitions.append("\n".join(parts))
        return name

    def _sequential(self) -> str:
        middle = self.pick(("nn.ReLU()", "nn.Tanh()", "nn.GELU()", "nn.LayerNorm(8), nn.SiLU()"))
        return f"nn.Sequential(nn.Linear(6, 8), {middle}, nn.Linear(8, 3))"

    def _plain_class(self) -> str:
        form = self.right(
            ("h", "h", "F.dropout(h, 0.1, self.training)"),
            (
                "h.detach()",
                "h.data",
                "torch.tensor(h.tolist())",
                "h.clone().detach()",
                "torch.from_numpy(h.detach().numpy())",
            ),
        )
        name = self.pick(("Net", "MLP", "Model"))
        self._class(
            name,
            "self.fc1 = nn.Linear(6, 8)\nself.fc2 = nn.Linear(8, 3)",
            f"h = {self.pick(('F.relu(self.fc1(x))', 'torch.tanh(self.fc1(x))', 'self.fc1(x).sigmoid()'))}\n"
            f"h = {form}\nreturn self.fc2(h)",
        )
        return f"{name}()"

    def _branches(self) -> str:
        layers = self.pick(("[nn.Linear(8, 8) for _ in range(2)]", "[nn.Linear(8, 8), nn.Linear(8, 8)]"))
        kept = self.right((f"nn.ModuleList({layers})",), (layers, f"tuple({layers})"))
        kind = self.pick(("list", "list", "dict", "parameter"))
        if kind == "list":
            use = self.pick((
                "for layer in self.layers:\n    h = torch.relu(layer(h))",
                "h = sum(layer(h) for layer in self.layers)",
                "for i in range(len(self.layers)):\n    h = h + self.layers[i](h)",
            ))  # fmt: skip
            init = f"self.layers = {kept}"
        elif kind == "dict":
            names = '{"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)}'
            init = f"self.layers = {self.right((f'nn.ModuleDict({names})',), (names,))}"
            use = 'h = self.layers["a"](h) + self.layers["b"](h)'
        else:
            init = "self.scale = " + self.right(
                ("nn.Parameter(torch.ones(8))", "torch.ones(8)"), ("torch.ones(8, requires_grad=True)",)
            )
            use = "h = h * self.scale"
        self._class(
            "Branches", f"self.inp = nn.Linear(6, 8)\n{init}\nself.out = nn.Linear(8, 3)",
            f"h = torch.tanh(self.inp(x))\n{use}\nreturn self.out(h)",
        )  # fmt: skip
        return "Branches()"

    def _two_stage(self) -> str:
        between = self.right(
            ("self.embed.weight.t() @ weights.t()", "None"),
            ("chosen", "ranked", "hard"),
        )
        bodies = {
            "chosen": "return self.out(self.embed(weights.argmax(dim=-1)))",
            "ranked": "return self.out(self.embed(weights.topk(2, dim=-1).indices).mean(1))",
            "hard": "return self.out(self.embed((weights > 0.25).long().sum(-1).clamp(max=3)))",
        }
        body = bodies.get(between, "return self.out(weights @ self.embed.weight)")
        self._class(
            "TwoStage", "self.selector = nn.Linear(6, 4)\nself.embed = nn.Embedding(4, 8)\nself.out = nn.Linear(8, 3)",
            f"weights = self.selector(x).softmax(-1)\n{body}",
        )  # fmt: skip
        return "TwoStage()"

    def _checkpointed(self) -> str:
        self.draft.imports.append("from torch.utils.checkpoint import checkpoint")
        mode = self.right(("use_reentrant=False",), ("use_reentrant=True",))
        stem = self.pick(
            ("checkpoint(self.stem, x, {m})", "self.stem(x)", "checkpoint(self.stem, x.requires_grad_(), {m})")
        )
        self._class(
            "Checkpointed",
            "self.stem = nn.Sequential(nn.Linear(6, 8), nn.ReLU())\nself.block = nn.Linear(8, 8)\nself.head = nn.Linear(8, 3)",
            f"h = {stem.format(m=mode)}\nh = checkpoint(self.block, h, {mode})\nreturn self.head(h)",
        )
        return "Checkpointed()"

    def _flagged(self) -> str:
        default = self.pick(("True", "False"))
        body = self.pick((
            "if self.frozen:\n    with torch.no_grad():\n        h = self.body(x)\nelse:\n    h = self.body(x)",
            "with torch.set_grad_enabled(not self.frozen):\n    h = self.body(x)",
            "h = self.body(x)\nif self.frozen:\n    h = h.detach()",
        ))  # fmt: skip
        switch = self.right(
            ("if frozen:\n    for p in self.body.parameters():\n        p.requires_grad = False",
             "self.body.requires_grad_(not frozen)"), ("pass",)
        )  # fmt: skip
        self._class(
            "Finetuned",
            f"self.frozen = frozen\nself.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())\nself.head = nn.Linear(8, 3)\n{switch}",
            f"{body}\nreturn self.head(h)", arguments=f"self, frozen={default}",
        )  # fmt: skip
        return self.pick(("Finetuned()", "Finetuned(frozen=True)", "Finetuned(frozen=False)"))

    def _extra_head(self) -> str:
        used = self.right(
            ("self.head(h) + self.aux(h)", "self.head(h)"), ("self.head(h)", "self.head(h) + self.aux(h).detach()")
        )
        aux = "self.aux = nn.Linear(8, 3)\n" if "aux" in used or self.chance(0.3) else ""
        self._class(
            "Heads", f"self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)\n{aux}",
            f"h = self.body(x).relu()\nreturn {used}",
        )  # fmt: skip
        return "Heads()"

    def _lazy(self) -> str:
        self._class(
            "Lazy", "self.body = nn.Linear(6, 8)\nself.head = None",
            """
            h = torch.relu(self.body(x))
            if self.head is None:
                self.head = nn.Linear(h.shape[-1], 3)
            return self.head(h)
            """,
        )  # fmt: skip
        self.warm = True
        return "Lazy()"

    warm = False

    def _embedding(self) -> str:
        frozen = self.pick(("", "self.table.requires_grad_(False)", "self.table.weight.requires_grad = False"))
        table = self.pick(("nn.Embedding(6, 8)", "nn.Embedding.from_pretrained(torch.randn(6, 8), freeze=False)"))
        self._class(
            "Bag", f"self.table = {table}\n{frozen}\nself.out = nn.Linear(8, 3)",
            "ids = x.argsort(-1)\nreturn self.out(self.table(ids).mean(1))",
        )  # fmt: skip
        return "Bag()"

    def _registered_late(self) -> str:
        self._class(
            "Growing", "self.blocks = nn.ModuleList([nn.Linear(6, 6)])\nself.head = nn.Linear(6, 3)",
            "for block in self.blocks:\n    x = x + torch.tanh(block(x))\nreturn self.head(x)",
            more="def grow(self):\n    self.blocks.append(nn.Linear(6, 6))",
        )  # fmt: skip
        self.late = self.pick(("", "", "before", "after", "between"))
        return "Growing()"

    late = ""

    def _recurrent(self) -> str:
        state = self.pick(("h", "h.detach()"))
        self._class(
            "Reader", "self.cell = nn.GRUCell(2, 8)\nself.out = nn.Linear(8, 3)",
            f"h = torch.zeros(x.shape[0], 8)\nfor part in x.view(x.shape[0], 3, 2).unbind(1):\n    h = self.cell(part, {state})\n"
            "return self.out(h)",
        )  # fmt: skip
        return "Reader()"

    # -- optimizers -----------------------------------------------------------------------------------------

    def optimizer(self, params: str, *, closure: bool = False) -> str:
        kind = self.pick((
            "torch.optim.SGD({}, lr=0.1)", "torch.optim.Adam({}, lr=1e-2)", "torch.optim.AdamW({}, lr=1e-2)",
            "torch.optim.SGD({}, lr=0.05, momentum=0.9)", "torch.optim.RMSprop({}, lr=1e-2)",
        ))  # fmt: skip
        return kind.format(params)

    def parameters(self, model: str) -> str:
        """Return an expression for the parameters of a model, possibly not of all of it."""
        draft = self.draft
        whole = [
            f"{model}.parameters()", f"{model}.parameters()", f"list({model}.parameters())",
            f"[p for p in {model}.parameters() if p.requires_grad]",
            f"filter(lambda p: p.requires_grad, {model}.parameters())",
            f"[p for _, p in {model}.named_parameters()]",
        ]  # fmt: skip
        split = (
            f'[{{"params": [p for n, p in {model}.named_parameters() if "bias" in n], "weight_decay": 0.0}}, '
            f'{{"params": [p for n, p in {model}.named_parameters() if "bias" not in n]}}]'
        )
        groups = (
            "def param_groups(model, decay=0.01):\n    decayed, plain = [], []\n    for name, p in model.named_parameters():\n"
            "        if not p.requires_grad:\n            continue\n"
            '        if p.ndim <= 1 or name.endswith(".bias"):\n            plain.append(p)\n        else:\n            decayed.append(p)\n'
            '    return [{"params": plain, "weight_decay": 0.0}, {"params": decayed, "weight_decay": decay}]'
        )
        if self.chance(0.15):
            draft.definitions.append(groups)
            return f"param_groups({model})"
        return self.pick([*whole, split])

    # -- one step -------------------------------------------------------------------------------------------

    def clearing(self, model: str, optimizer: str) -> list[str]:
        return self.pick((
            [f"{optimizer}.zero_grad()"], [f"{optimizer}.zero_grad()"], [f"{optimizer}.zero_grad(set_to_none=True)"],
            [f"{optimizer}.zero_grad(set_to_none=False)"], [f"{model}.zero_grad()"],
            [f"for p in {model}.parameters():", "    p.grad = None"],
            [f"for p in {model}.parameters():", "    if p.grad is not None:", "        p.grad.zero_()"],
            [f"for group in {optimizer}.param_groups:", '    for p in group["params"]:', "        p.grad = None"],
        ))  # fmt: skip

    def terms(self, loss: str, model: str, out: str) -> list[str]:
        """Return lines that add a term to the loss, or none."""
        names = self.names
        if self.chance(0.5):
            return []
        value = self.right(
            (f"sum(p.pow(2).sum() for p in {model}.parameters())", f"{out}.pow(2).mean()", f"{out}.abs().mean()",
             f"F.softmax({out}, -1).max(-1).values.mean()"),
            (f"{out}.detach().pow(2).mean()", f"({out}.argmax(-1) != {names.y}).float().mean()",
             f"torch.tensor({out}.pow(2).mean().item())", f"{out}.data.abs().mean()", f"{out}.mean().item()",
             f"{out}.pow(2).mean().detach()", f"penalty_of({model}, {out})"),
        )  # fmt: skip
        if value.startswith("penalty_of"):
            body = self.pick((
                "    with torch.no_grad():\n        return out.pow(2).mean()",
                "    return sum(p.data.norm() for p in model.parameters())",
                "    total = torch.tensor(0.0)\n    for p in model.parameters():\n        total = total + p.abs().sum()\n    return total",
                "    total = 0.0\n    for p in model.parameters():\n        total += p.norm().item()\n    return total",
            ))  # fmt: skip
            if not any(each.startswith("def penalty_of") for each in self.draft.definitions):
                self.draft.definitions.append(f"def penalty_of(model, out):\n{body}")
        weight = self.pick(("0.1", "0.5", "1e-2", "2.0"))
        form = self.pick(("inline", "named", "augmented", "listed"))
        if form == "named":
            return [f"extra = {value}", f"{loss} = {loss} + {weight} * extra"]
        if form == "augmented":
            return [f"{loss} += {weight} * {value}"]
        if form == "listed":
            return [f"reg = {weight} * {value}", f"{loss} = {loss} + reg"]
        return [f"{loss} = {loss} + {weight} * {value}"]

    def update(self, model: str, optimizer: str, forward: list[str], loss: str, out: str) -> list[str]:
        """Return the lines of a step: forward pass, loss, backward, clipping, step, clearing."""
        draft, names = self.draft, self.names
        clear = self.clearing(model, optimizer)
        amp = self.chance(0.2)
        every = self.pick((1, 1, 1, 1, 2)) if not amp or self.chance(0.7) else 1
        place = self.right(("first", "first", "before", "after"), ("none", "between", "rarely", "first"))
        lines = list(clear) if place == "first" and every == 1 else []
        if every > 1 and self.chance(1 - self.care):
            lines = list(clear)
        lines += forward + self.terms(loss, model, out)
        if every > 1 and self.chance(0.6):
            lines.append(f"{loss} = {loss} / {every}")
        if place == "before" and every == 1:
            lines += clear
        scaler = names.scaler
        if amp:
            enabled = self.pick(("", "", ", enabled=True", ", enabled=False", ", enabled=use_amp"))
            if "use_amp" in enabled:
                draft.setup.append(f"use_amp = {self.pick(('True', 'False'))}")
            draft.setup.append(
                f'{scaler} = torch.amp.GradScaler("cpu", init_scale={self.pick(("256.0", "1024.0"))}{enabled})'
            )
            draft.state.append(scaler)
            lines.append(f"{scaler}.scale({loss}).backward()")
        else:
            lines.append(f"{loss}.backward()")
        if place == "between" and every == 1:
            lines += clear
        clip = self.pick(((), (), ("norm",), ("value",), ("manual",), ("log",)))
        end = []
        if amp and clip and self.chance(self.care):
            end.append(f"{scaler}.unscale_({optimizer})")
        for each in clip:
            end += {
                "norm": [f"{self.pick(('torch.nn.utils', 'nn.utils'))}.clip_grad_norm_({model}.parameters(), 1.0)"],
                "value": [f"nn.utils.clip_grad_value_({model}.parameters(), 0.5)"],
                "manual": [
                    f"for p in {model}.parameters():",
                    "    if p.grad is not None:",
                    "        p.grad.clamp_(-1, 1)",
                ],
                "log": [
                    f"norm = sum(p.grad.norm().item() for p in {model}.parameters() if p.grad is not None)",
                    "print(norm)",
                ],
            }[each]
        end += [f"{scaler}.step({optimizer})", f"{scaler}.update()"] if amp else [f"{optimizer}.step()"]
        if every > 1 or place == "after":
            end += clear
        if every > 1:
            draft.counts = True
            lines.append(f"if (i + 1) % {every} == 0:")
            end = ["    " + line for line in end]
        elif place == "rarely":
            draft.counts = True
            lines += ["if i % 3 == 2:", *("    " + line for line in clear)]
        return lines + end

    # -- tasks ----------------------------------------------------------------------------------------------

    def classification(self) -> None:
        draft, names = self.draft, self.names
        model, optimizer, loss, out = names.model, names.optimizer, names.loss, names.out
        draft.setup.append(f"{model} = {self.model()}")
        draft.state += [model, optimizer]
        if self.warm:
            # A layer that the first call makes: before the optimizer, or after it.
            if self.chance(self.care):
                draft.setup.append(f"{model}(torch.randn(2, 6))")
        if self.late == "before":
            draft.setup.append(f"{model}.grow()")
        surgery = self.pick(("", "", "", "", "freeze", "replace", "loose"))
        attribute = next((a for a in ("fc2", "out", "head") if any(f"self.{a} =" in d for d in draft.definitions)), "")
        replaced = f"{model}.{attribute} = nn.Linear({model}.{attribute}.in_features, 3)"
        if self.warm:
            attribute = ""
        if surgery == "replace" and attribute and self.chance(self.care):
            draft.setup.append(replaced)
            surgery = ""
        if surgery == "freeze":
            first = self.pick((f"next({model}.children())", f"list({model}.children())[0]"))
            draft.setup.append(self.pick((
                f"{first}.requires_grad_(False)", f"for p in {first}.parameters():\n    p.requires_grad = False",
            )))  # fmt: skip
        scale = surgery == "loose"
        if scale:
            draft.setup.append(f"temperature = {self.pick(('nn.Parameter(torch.ones(1))', 'torch.ones(1)'))}")
            draft.state.append("temperature")
        params = self.parameters(model)
        if scale and self.chance(self.care):
            params = f"[*{model}.parameters(), temperature]" if "nn.Parameter" in draft.setup[-1] else params
        draft.setup.append(f"{optimizer} = {self.optimizer(params)}")
        if surgery == "replace" and attribute:
            draft.setup.append(replaced)
            if self.chance(0.3):
                draft.setup.append(f'{optimizer}.add_param_group({{"params": {model}.{attribute}.parameters()}})')
        if self.late == "after":
            draft.setup.append(f"{model}.grow()")
        elif self.late == "between":
            draft.between.append(f"{model}.grow()")
            if self.chance(self.care):
                draft.between.append(f'{optimizer}.add_param_group({{"params": {model}.blocks[-1].parameters()}})')
        if self.chance(0.3):
            draft.setup.append(f"scheduler = torch.optim.lr_scheduler.StepLR({optimizer}, 1)")
            draft.state.append("scheduler")
            draft.between.append("scheduler.step()")
        score = f"{model}({names.x})" + (" * temperature" if scale else "")
        if self.chance(0.4):
            draft.setup.append(f"{names.criterion} = nn.CrossEntropyLoss()")
            draft.state.append(names.criterion)
            forward = [f"{out} = {score}", f"{loss} = {names.criterion}({out}, {names.y})"]
        else:
            call = self.pick(("F.cross_entropy", "nn.functional.cross_entropy"))
            forward = [f"{out} = {score}", f"{loss} = {call}({out}, {names.y})"]
        if self.chance(1 - self.care) and self.chance(0.3):
            forward.append(f"{loss} = torch.tensor({loss}.item(), requires_grad=True)")
        draft.step = self.update(model, optimizer, forward, loss, out)
        if self.chance(0.5):
            self._evaluation(model)

    def _evaluation(self, model: str) -> None:
        """Evaluate the model in a loop of its own."""
        draft = self.draft
        guard = self.right(("with torch.no_grad():", "with torch.inference_mode():"), ("", ""))
        form = self.pick(("loop", "loop", "comprehension", "function", "function", "range"))
        data = "val"
        draft.setup.append(f"val = [({draft.batch[0]}, {draft.batch[1]}) for _ in range(3)]")
        draft.state.append("val")
        start = self.pick(([f"{model}.eval()"], [f"{model}.train(False)"], []))
        back = self.pick(([f"{model}.train()"], [])) if start else []
        add = self.pick((
            f"correct += ({model}(vx).argmax(-1) == vy).sum().item()",
            f"correct += F.cross_entropy({model}(vx), vy).item()",
        ))  # fmt: skip
        loop = [f"for vx, vy in {data}:", f"    {add}"]
        if form == "range":
            loop = [f"for j in range(len({data})):", f"    vx, vy = {data}[j]", f"    {add}"]
        body = ["correct = 0", *loop, "print(correct)"]
        if form == "comprehension":
            value = self.pick((
                f"[F.cross_entropy({model}(vx), vy).item() for vx, vy in {data}]",
                f"sum(({model}(vx).argmax(-1) == vy).sum().item() for vx, vy in {data})",
            ))  # fmt: skip
            body = [f"correct = {value}", "print(correct)"]
        if guard and form != "function":
            body = [guard, *("    " + line for line in body)]
        if form == "function":
            inner = [re.sub(rf"\b{model}\b", "network", line) for line in [*start, *body[:-1], *back, "return correct"]]
            decorated = ["@torch.no_grad()"] if guard and self.chance(0.5) else []
            if guard and not decorated:
                inner = [guard, *("    " + line for line in inner)]
            inner = [line.replace(f"in {data}", "in batches").replace(f"len({data})", "len(batches)")
                     .replace(f"{data}[j]", "batches[j]") for line in inner]  # fmt: skip
            name = self.pick(("evaluate", "validate", "test"))
            draft.definitions.append(
                "\n".join([*decorated, f"def {name}(network, batches):", *("    " + x for x in inner)])
            )
            draft.evaluation = [f"print({name}({model}, {data}))"]
        else:
            draft.evaluation = [*start, *body, *back]

    def gan(self) -> None:
        draft = self.draft
        draft.batch = ("torch.randn(5, 2)", "torch.randn(5, 4)")
        g, d, go, do = self.pick((("G", "D", "optG", "optD"), ("generator", "critic", "g_optimizer", "d_optimizer")))
        loss_g, loss_d = self.pick((("g_loss", "d_loss"), ("errG", "errD")))
        z, real = self.names.x, self.names.y
        draft.setup += [
            f"{g} = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4))",
            f"{d} = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1))",
            f"{go} = {self.optimizer(f'{g}.parameters()')}",
            f"{do} = {self.optimizer(f'{self.right((d,), (d, g))}.parameters()')}",
        ]
        draft.state += [g, d, go, do]
        detached = self.right(("fake.detach()", "fake.detach()", "fake"), ("fake",))
        shared = self.right(("fake", f"{g}({z})"), ("fake.detach()", "fake.data"))
        clear_d = self.clearing(d, do)
        clear_g = self.clearing(g, go)
        extra = self.right(
            ("",),
            (f" + 0.1 * (fake - {real}).pow(2).mean().detach()", f" + ({d}({real}) - {d}(fake.detach())).abs().mean()"),
        )
        real_term = self.pick((f"-{d}({real}).mean()", f"F.softplus(-{d}({real})).mean()"))
        fake_term = self.pick((f"{d}({detached}).mean()", f"F.softplus({d}({detached})).mean()"))
        order_d = self.right(("before", "before"), ("none", "between", "twice"))
        retain = "retain_graph=True" if detached == "fake" else ""
        split = self.chance(0.4)
        lines = [f"fake = {g}({z})"]
        if split:
            lines += clear_d if order_d != "none" else []
            lines += [f"real_loss = {real_term}", "real_loss.backward()"]
            lines += clear_d if order_d == "twice" else []
            lines += [f"fake_loss = {fake_term}", f"fake_loss.backward({retain})", f"{loss_d} = real_loss + fake_loss"]
        else:
            lines += [f"{loss_d} = {real_term} + {fake_term}"]
            lines += clear_d if order_d in ("before", "twice") else []
            lines += [f"{loss_d}.backward({retain})"]
        lines += clear_d if order_d == "between" else []
        lines += [f"{do}.step()"]
        order_g = self.right(("before", "before"), ("none", "between"))
        lines += [f"{loss_g} = -{d}({shared}).mean(){extra}"]
        lines += clear_g if order_g == "before" else []
        lines += [f"{loss_g}.backward()"]
        lines += clear_g if order_g == "between" else []
        lines += [f"{go}.step()"]
        if self.chance(0.3):
            lines += [f"print(({loss_d} + {loss_g}).item())"]
        draft.step = lines
        if self.chance(0.4):
            guard = self.right(("with torch.no_grad():",), ("",))
            body = ["for k in range(3):", f"    sample = {g}(torch.randn(2, 2))", "    print(sample.mean().item())"]
            draft.evaluation = [guard, *("    " + line for line in body)] if guard else body

    def actor_critic(self) -> None:
        draft = self.draft
        draft.batch = ("torch.randn(6, 4)", "torch.randn(6)")
        draft.imports.append("from torch.distributions import Categorical")
        obs, ret = self.names.x, self.names.y
        joint = self.chance(0.5)
        draft.setup += [
            "actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))",
            "critic = nn.Linear(4, 1)",
        ]
        draft.state += ["actor", "critic"]
        advantage = self.right(
            ("(returns - value).detach()", "returns - value.detach()"),
            ("returns - value", "(returns - value).detach()"),
        )
        value_loss = self.right(
            ("(returns - value).pow(2).mean()", "F.smooth_l1_loss(value, returns)"),
            ("advantage.pow(2).mean()", "F.mse_loss(value.detach(), returns)", "(returns - value).pow(2).mean()"),
        )
        entropy = self.right(
            ("dist.entropy().mean()",),
            (
                "dist.entropy().mean().item()",
                "dist.entropy().mean().detach()",
                "Categorical(logits=logits.detach()).entropy().mean()",
            ),
        )
        begin = [
            f"logits, value = actor({obs}), critic({obs}).squeeze(-1)", "dist = Categorical(logits=logits)",
            "action = dist.sample()", f"returns = {ret}", f"advantage = {advantage}",
            "policy_loss = -(dist.log_prob(action) * advantage).mean()", f"value_loss = {value_loss}",
        ]  # fmt: skip
        if joint:
            params = self.right(
                ("list(actor.parameters()) + list(critic.parameters())", "itertools.chain(actor.parameters(), critic.parameters())",
                 "[*actor.parameters(), *critic.parameters()]", '[{"params": actor.parameters()}, {"params": critic.parameters(), "lr": 1e-3}]'),
                ("actor.parameters()", "list(actor.parameters()) + list(critic.parameters())"),
            )  # fmt: skip
            if "itertools" in params:
                draft.imports.append("import itertools")
            draft.setup.append(f"optimizer = {self.optimizer(params)}")
            draft.state.append("optimizer")
            clear = ["optimizer.zero_grad()"]
            place = self.right(("before",), ("none", "between"))
            lines = [*begin, f"loss = policy_loss + 0.5 * value_loss - 0.01 * {entropy}"]
            lines += clear if place == "before" else []
            lines += ["loss.backward()"]
            lines += clear if place == "between" else []
            if self.chance(0.4):
                lines.append(f"nn.utils.clip_grad_norm_({self.pick(('actor', 'critic'))}.parameters(), 0.5)")
            lines += ["optimizer.step()"]
        else:
            draft.setup += [
                f"actor_opt = {self.optimizer('actor.parameters()')}",
                f"critic_opt = {self.optimizer('critic.parameters()')}",
            ]
            draft.state += ["actor_opt", "critic_opt"]
            retain = "retain_graph=True" if "detach" not in advantage else ""
            order = self.right(("both",), ("actor", "critic", "none"))
            lines = list(begin)
            if self.chance(0.5):
                lines += ["actor_opt.zero_grad()"] if order in ("both", "actor") else []
                lines += ["critic_opt.zero_grad()"] if order in ("both", "critic") else []
                lines += [
                    f"policy_loss.backward({retain})",
                    "value_loss.backward()",
                    "actor_opt.step()",
                    "critic_opt.step()",
                ]
            else:
                lines += ["actor_opt.zero_grad()"] if order in ("both", "actor") else []
                lines += [f"policy_loss.backward({retain})", "actor_opt.step()"]
                lines += ["critic_opt.zero_grad()"] if order in ("both", "critic") else []
                lines += ["value_loss.backward()", "critic_opt.step()"]
        draft.step = lines

    def distillation(self) -> None:
        draft, names = self.draft, self.names
        teacher, student = self.pick((("teacher", "student"), ("big", "small"), ("target_net", "online_net")))
        draft.setup += [f"{student} = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))"]
        copied = self.chance(0.5)
        draft.setup += [f"{teacher} = copy.deepcopy({student})" if copied else f"{teacher} = nn.Linear(6, 3)"]
        draft.imports += ["import copy"] if copied else []
        if self.chance(0.5):
            draft.setup += [
                self.pick(
                    (
                        f"{teacher}.requires_grad_(False)",
                        f"for p in {teacher}.parameters():\n    p.requires_grad = False",
                    )
                )
            ]
        params = self.right(
            (f"{student}.parameters()",),
            (
                f"{student}.parameters()",
                f"{teacher}.parameters()",
                f"[*{student}.parameters(), *{teacher}.parameters()]",
            ),
        )
        draft.setup += [f"{names.optimizer} = {self.optimizer(params)}"]
        draft.state += [student, teacher, names.optimizer]
        soft = self.pick((
            ["with torch.no_grad():", f"    t = {teacher}({names.x})"], [f"t = {teacher}({names.x}).detach()"],
            [f"t = {teacher}({names.x})"],
        ))  # fmt: skip
        kind = self.right(
            ("F.kl_div(F.log_softmax(s, -1), F.softmax(t, -1), reduction='batchmean')", "F.mse_loss(s, t)"),
            ("F.mse_loss(s.detach(), t)", "soft_loss(s, t)", "F.mse_loss(torch.tensor(s.tolist()), t)"),
        )
        if kind.startswith("soft_loss"):
            draft.definitions.append(self.pick((
                "@torch.no_grad()\ndef soft_loss(s, t):\n    return F.mse_loss(s.softmax(-1), t.softmax(-1))",
                "def soft_loss(s, t):\n    with torch.no_grad():\n        p, q = t.softmax(-1), s.softmax(-1)\n    return (p - q).pow(2).mean()",
                "def soft_loss(s, t):\n    with torch.no_grad():\n        p = t.softmax(-1)\n    return (p - s.softmax(-1)).pow(2).mean()",
            )))  # fmt: skip
        lines = [f"s = {student}({names.x})", *soft, f"hard = F.cross_entropy(s, {names.y})", f"soft = {kind}"]
        weights = self.pick(
            ("0.5 * hard + 0.5 * soft", "hard + soft", "hard + 2.0 * soft", "(1 - 0.3) * hard + 0.3 * soft")
        )
        lines += [
            f"{names.loss} = {weights}",
            f"{names.optimizer}.zero_grad()",
            f"{names.loss}.backward()",
            f"{names.optimizer}.step()",
        ]
        if copied and self.chance(0.6):
            lines += self.pick((
                ["with torch.no_grad():", f"    for a, b in zip({teacher}.parameters(), {student}.parameters()):", "        a.mul_(0.9).add_(b, alpha=0.1)"],
                [f"for a, b in zip({teacher}.parameters(), {student}.parameters()):", "    a.data.copy_(0.9 * a.data + 0.1 * b.data)"],
            ))  # fmt: skip
        draft.step = lines

    def several_losses(self) -> None:
        """An encoder, a decoder, a classifier: several optimizers, several losses."""
        draft, names = self.draft, self.names
        draft.setup += ["encoder = nn.Linear(6, 4)", "decoder = nn.Linear(4, 6)", "head = nn.Linear(4, 3)"]
        draft.state += ["encoder", "decoder", "head"]
        parts = self.right(
            (("encoder", "decoder", "head"),),
            (("encoder", "decoder"), ("decoder", "head"), ("encoder", "head"), ("encoder", "decoder", "head")),
        )
        separate = self.chance(0.5)
        if separate:
            optimizers = [f"opt_{part}" for part in parts]
            draft.setup += [f"opt_{part} = {self.optimizer(f'{part}.parameters()')}" for part in parts]
        else:
            listed = " + ".join(f"list({part}.parameters())" for part in parts)
            optimizers = ["optimizer"]
            draft.setup += [f"params = {listed}", f"optimizer = {self.optimizer('params')}"]
            if self.chance(0.3):
                draft.setup[-1] = (
                    f"optimizer = {self.optimizer('nn.ModuleList([' + ', '.join(parts) + ']).parameters()')}"
                )
        draft.state += optimizers
        code = self.right(("z", "z"), ("z.detach()", "z.data"))
        lines = [f"z = torch.relu(encoder({names.x}))", f"recon = F.mse_loss(decoder({code}), {names.x})",
                 f"cls = F.cross_entropy(head({self.pick(('z', 'z', code))}), {names.y})"]  # fmt: skip
        cleared = list(optimizers) if self.chance(self.care) else self.random.sample(optimizers, len(optimizers) - 1)
        clear = [f"{each}.zero_grad()" for each in cleared]
        if self.chance(0.3) and separate:
            clear = ["for o in (" + ", ".join(cleared) + ",):", "    o.zero_grad()"] if cleared else []
        steps = [f"{each}.step()" for each in optimizers]
        style = self.pick(("sum", "sum", "two", "two cleared", "list"))
        if style == "sum":
            lines += [*clear, "loss = recon + 0.5 * cls", "loss.backward()", *steps]
        elif style == "list":
            lines += [*clear, "losses = [recon, cls]", "sum(losses).backward()", *steps]
        elif style == "two":
            lines += [*clear, "recon.backward(retain_graph=True)", "cls.backward()", *steps]
        else:
            middle = clear if self.chance(1 - self.care) else steps + clear
            if middle is not clear:
                # Stepped in between, the graph of the second loss would be stale: it is computed anew.
                lines = [
                    lines[0],
                    lines[1],
                    *clear,
                    "recon.backward()",
                    *middle,
                    lines[0],
                    lines[2],
                    "cls.backward()",
                    *steps,
                ]
            else:
                lines += [*clear, "recon.backward(retain_graph=True)", *middle, "cls.backward()", *steps]
        draft.step = lines

    def attack(self) -> None:
        """An adversarial step, an optimized input, saliency: gradients of inputs are read, those of the model cleared."""
        draft, names = self.draft, self.names
        model, optimizer = names.model, names.optimizer
        draft.setup += [
            f"{model} = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))",
            f"{optimizer} = {self.optimizer(f'{model}.parameters()')}",
        ]
        draft.state += [model, optimizer]
        read = self.right(
            (
                "adv = ({x} + 0.1 * {x}.grad.sign()).detach()",
                "g = {x}.grad\nadv = ({x} + 0.1 * g / (g.norm() + 1e-8)).detach()",
            ),
            ("adv = ({x} + 0.1 * torch.randn_like({x})).detach()",),
        )
        clear = self.right(([f"{optimizer}.zero_grad()"],), ([], [f"{optimizer}.zero_grad()"]))
        lines = [
            f"{names.x} = {names.x}.clone().requires_grad_(True)",
            f"F.cross_entropy({model}({names.x}), {names.y}).backward()",
            *read.replace("{x}", names.x).splitlines(), *clear,
            f"{names.loss} = F.cross_entropy({model}(adv), {names.y})", f"{names.loss}.backward()", f"{optimizer}.step()",
        ]  # fmt: skip
        lines += [] if clear and self.chance(0.5) else [f"{optimizer}.zero_grad()"] if self.chance(self.care) else []
        draft.step = lines

    def lbfgs(self) -> None:
        draft, names = self.draft, self.names
        model, optimizer = names.model, names.optimizer
        draft.setup += [
            f"{model} = {self.pick(('nn.Linear(6, 3)', 'nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))'))}"
        ]
        draft.setup += [
            f"{optimizer} = {self.pick((f'torch.optim.LBFGS({model}.parameters(), lr=0.1, max_iter=3)', self.optimizer(f'{model}.parameters()')))}"
        ]
        draft.state += [model, optimizer]
        clear = self.right(("first",), ("none", "after", "outside"))
        inner = [f"{names.loss} = F.cross_entropy({model}({names.x}), {names.y})"]
        inner += self.terms(names.loss, model, f"{model}({names.x})")
        inner = ([f"{optimizer}.zero_grad()"] if clear == "first" else []) + inner
        inner += (
            [f"{names.loss}.backward()"]
            + ([f"{optimizer}.zero_grad()"] if clear == "after" else [])
            + [f"return {names.loss}"]
        )
        lines = [f"{optimizer}.zero_grad()"] if clear == "outside" else []
        draft.step = [*lines, "def closure():", *("    " + line for line in inner), f"{optimizer}.step(closure)"]

    def language(self) -> None:
        """A small language model, and sampling from it."""
        draft, names = self.draft, self.names
        draft.batch = ("torch.randint(0, 7, (3, 5))", "torch.randint(0, 7, (3, 5))")
        model, optimizer = names.model, names.optimizer
        reentrant = self.right(("False",), ("True",))
        block = self.pick(
            (
                "self.mix(h)",
                f"checkpoint(self.mix, h, use_reentrant={reentrant})",
                f"checkpoint(self.mixed, x, use_reentrant={reentrant})",
            )
        )
        if "checkpoint" in block:
            draft.imports.append("from torch.utils.checkpoint import checkpoint")
        tied = self.pick(("", "self.out.weight = self.emb.weight"))
        start = "" if "mixed" in block else "h = self.emb(x)\n"
        self._class(
            "LM", f"self.emb = nn.Embedding(7, 8)\nself.mix = nn.Sequential(nn.Linear(8, 8), nn.GELU())\nself.out = nn.Linear(8, 7)\n{tied}",
            f"{start}h = {block}\nreturn self.out(h)", more="def mixed(self, tokens):\n    return self.mix(self.emb(tokens))",
        )  # fmt: skip
        frozen = self.pick(("", "", f"{model}.emb.requires_grad_(False)"))
        draft.setup += [
            f"{model} = LM()",
            *([frozen] if frozen else []),
            f"{optimizer} = {self.optimizer(self.parameters(model))}",
        ]
        draft.state += [model, optimizer]
        out, loss = names.out, names.loss
        forward = [f"{out} = {model}({names.x})", f"{loss} = F.cross_entropy({out}.view(-1, 7), {names.y}.view(-1))"]
        draft.step = self.update(model, optimizer, forward, loss, out)
        if self.chance(0.5):
            guard = self.right(("with torch.no_grad():", "with torch.inference_mode():"), ("",))
            kind = self.pick(("loop", "function"))
            body = ["tokens = torch.zeros(1, 1, dtype=torch.long)", "for _ in range(4):", f"    scores = {model}(tokens)[:, -1]",
                    "    tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], 1)"]  # fmt: skip
            if kind == "function":
                inner = [line.replace(f"{model}(", "lm(") for line in body] + ["return tokens"]
                if guard and self.chance(0.5):
                    draft.definitions.append(
                        "\n".join(["@torch.no_grad()", "def generate(lm):", *("    " + line for line in inner)])
                    )
                else:
                    inner = [guard, *("    " + line for line in inner)] if guard else inner
                    draft.definitions.append("\n".join(["def generate(lm):", *("    " + line for line in inner)]))
                draft.evaluation = [f"print(generate({model}).tolist())"]
            else:
                body += ["print(tokens.tolist())"]
                draft.evaluation = [guard, *("    " + line for line in body)] if guard else body

    # -- styles ---------------------------------------------------------------------------------------------

    def write(self) -> str:
        task = self.pick((
            self.classification, self.classification, self.classification, self.classification, self.gan, self.actor_critic,
            self.distillation, self.several_losses, self.attack, self.lbfgs, self.language,
        ))  # fmt: skip
        task()
        draft = self.draft
        epochs, batches = self.pick((1, 2, 2)), self.pick((3, 4))
        if draft.between:
            epochs = 2
        if draft.counts:
            batches = 4
        meter = self.pick((False, False, True))
        if meter:
            draft.definitions.append(
                "class AverageMeter:\n    def __init__(self):\n        self.sum = 0.0\n        self.count = 0\n\n"
                "    def update(self, value, n=1):\n        self.sum += value * n\n        self.count += n"
            )
        last = self._last_loss(draft.step)
        log = []
        if meter and last:
            draft.setup.append("meter = AverageMeter()")
            draft.state.append("meter")
            log = [f"meter.update({last}.item())"]
        elif last and self.chance(0.4):
            log = [self.pick((f"print({last}.item())", f"print(float({last}))", f"print('%.4f' % {last}.item())"))]
        style = self.pick(("script", "main", "functions", "trainer", "trainer"))
        source = self.pick(("range", "list", "loader", "generator"))
        data, header, begin = self._data(source, batches)
        lines: list[str] = []
        step = [*draft.step, *log]
        if style == "trainer":
            lines = self._trainer(step, data, header, begin, epochs)
        else:
            loop = [f"for epoch in range({epochs}):", *("    " + line for line in (header, *("    " + x for x in (*begin, *step)))),
                    *("    " + line for line in draft.between)]  # fmt: skip
            where = self.pick(("inside", "after"))
            tail = draft.evaluation
            if tail and where == "inside" and "val" in draft.state:
                loop += ["    " + line for line in tail]
                tail = []
            if style == "functions":
                taken = ", ".join(dict.fromkeys(each for each in (*draft.state, "loader") if each != "val"))
                if source == "range":
                    taken = ", ".join(dict.fromkeys(each for each in draft.state if each != "val"))
                function = [f"def train_epoch({taken}):", "    " + header, *("        " + x for x in (*begin, *step))]
                main = [*draft.setup, *data, f"for epoch in range({epochs}):", f"    train_epoch({taken})",
                        *("    " + line for line in draft.between), *tail]  # fmt: skip
                if loop and not tail and draft.evaluation:
                    main += (
                        ["    " + line for line in draft.evaluation]
                        if main[-1].startswith("    ")
                        else draft.evaluation
                    )
                lines = [*function, "", "", *self._wrapped(main)]
            else:
                whole = [*draft.setup, *data, *loop, *tail]
                lines = self._wrapped(whole) if style == "main" else whole
        head = [
            "import torch",
            "import torch.nn.functional as F",
            "from torch import nn",
            *dict.fromkeys(draft.imports),
        ]
        text = "\n".join([*head, "", "", "\n\n\n".join(draft.definitions), "", "", *lines])
        while "\n\n\n\n" in text:
            text = text.replace("\n\n\n\n", "\n\n\n")
        return text.rstrip("\n") + "\n"

    def _last_loss(self, step: Sequence[str]) -> str:
        for line in reversed(step):
            part = line.strip()
            if part.endswith(".backward()") and part[: -len(".backward()")].isidentifier() and not line.startswith(" "):
                return part[: -len(".backward()")]
        return ""

    def _data(self, source: str, batches: int) -> tuple[list[str], str, list[str]]:
        """Return what makes the data, the header of the loop over it, and what begins an iteration."""
        x, y = self.names.x, self.names.y
        first, second = self.draft.batch
        if source == "range":
            return [], f"for i in range({batches}):", [f"{x}, {y} = {first}, {second}"]
        if source == "loader":
            self.draft.imports.append("from torch.utils.data import DataLoader, TensorDataset")
            size = int(first.split("(")[-1].split(",")[0]) if "randint" not in first else 3
            whole = [each.replace(f"({size},", f"({size * batches},", 1) for each in (first, second)]
            whole[1] = second.replace(f"({size}", f"({size * batches}", 1)
            if "randint" in first:
                whole[0] = whole[1]
            made = [f"loader = DataLoader(TensorDataset({whole[0]}, {whole[1]}), batch_size={size})"]
        elif source == "generator":
            self.draft.definitions.append(f"def batches(n):\n    for _ in range(n):\n        yield {first}, {second}")
            made = [f"loader = list(batches({batches}))"]
        else:
            made = [f"loader = [({first}, {second}) for _ in range({batches})]"]
        if self.draft.counts:
            form = self.pick((f"for i, ({x}, {y}) in enumerate(loader):", "for i, batch in enumerate(loader):"))
        else:
            form = self.pick((f"for {x}, {y} in loader:", "for batch in loader:"))
        begin = [self.pick((f"{x}, {y} = batch", f"{x} = batch[0]\n{y} = batch[1]"))] if "batch in" in form else []
        return made, form, [line for each in begin for line in each.splitlines()]

    def _wrapped(self, lines: Sequence[str]) -> list[str]:
        name = self.pick(("main", "run", "train"))
        call = self.pick(([f"{name}()"], ['if __name__ == "__main__":', f"    {name}()"]))
        flat = [part for line in lines for part in line.split("\n")]
        return [f"def {name}():", *("    " + line for line in flat), "", "", *call]

    def _trainer(self, step: Sequence[str], data: list[str], header: str, begin: list[str], epochs: int) -> list[str]:
        """Return a class that keeps everything on `self`."""
        draft = self.draft
        state = list(dict.fromkeys([*draft.state, *(["loader"] if data else [])]))

        def own(line: str) -> str:
            for name in state:
                line = re.sub(rf"(?<![\w.\"']){name}\b(?!\s*=[^=])", f"self.{name}", line)
                line = re.sub(rf"^(\s*){name}( = )", r"\1self." + name + r"\2", line)
            return line

        setup = [part for line in (*draft.setup, *data) for part in line.split("\n")]
        x, y = self.names.x, self.names.y
        parts = ["class Trainer:", "    def __init__(self):", *("        " + own(line) for line in setup)]
        inner = [own(line) for line in step]
        split = self.chance(0.5)
        if split:
            extra = ", i" if draft.counts else ""
            returned = [f"return {last}.item()"] if (last := self._last_loss(step)) and self.chance(0.5) else []
            parts += [
                "",
                f"    def train_step(self, {x}, {y}{extra}):",
                *("        " + line for line in (*inner, *returned)),
            ]
            body = [*begin, f"self.train_step({x}, {y}{extra})"]
        else:
            body = [*begin, *inner]
        parts += ["", "    def fit(self):", f"        for epoch in range({epochs}):", "            " + own(header),
                  *("                " + line for line in body), *("            " + own(line) for line in draft.between)]  # fmt: skip
        call = ["trainer = Trainer()", "trainer.fit()"]
        if draft.evaluation:
            if self.chance(0.5):
                parts += ["            " + own(line) for line in draft.evaluation]
            else:
                parts += ["", "    def check(self):", *("        " + own(line) for line in draft.evaluation)]
                call.append("trainer.check()")
        return [*parts, "", "", *call]


def generate(seed: int) -> str:
    """Return program number `seed`."""
    return Writer(seed).write()


if __name__ == "__main__":
    print(generate(int(sys.argv[1])), end="")
