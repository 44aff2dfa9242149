"""What code that cannot be seen may do to a sharded or wrapped model: no finding is new, and none is more certain."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tapecheck.check import check
from tapecheck.rules import ALL, RAISING, Finding
from tapecheck.source import from_text

PROGRAMS = Path(__file__).parent / "programs"
WRAPPING = ("fully_shard(", "DDP(", "DistributedDataParallel(")
GIVEN = ("model", "optimizer", "model, optimizer", "list(model.parameters())", "loss")
DONE = {
    "model": (
        "model.reshard()", "model.unshard()", "model.set_requires_gradient_sync(True)",
        "model.set_requires_gradient_sync(False)", "model.set_reshard_after_backward(False)",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "[p.grad for p in model.parameters()]",
        "torch.distributed.fsdp.register_fsdp_forward_method(model, 'features')", "model.zero_grad()", "model.eval()",
        "[p.requires_grad_(False) for p in model.parameters()]", "torch.distributed.fsdp.fully_shard(model)",
        "[torch.distributed.all_reduce(p.grad) for p in model.parameters() if p.grad is not None]",
    ),
    "optimizer": ("optimizer.zero_grad()", "optimizer.step()", "optimizer.param_groups.clear()"),
    "loss": ("loss.backward(retain_graph=True)", "loss.item()"),
}  # fmt: skip
"""What a helper does, by what it needs."""
EACH = int(os.environ.get("HIDDEN", "4"))
"""How many variants of each program are looked at."""


@cache
def programs() -> dict[str, str]:
    """Return programs of the tests and of the rules' pages that wrap what they call `model`."""
    texts = {path.stem: path.read_text() for path in sorted(PROGRAMS.glob("*.py"))}
    for rule in ALL:
        if rule.code.startswith("TAPE60"):
            page = rule.page
            texts.update({f"{rule.code} {example.title}": example.program for example in (*page.invalid, *page.valid)})
    return {
        name: text for name, text in texts.items()
        if any(each in text for each in WRAPPING) and "\nmodel = " in text and "\nfor " in text
    }  # fmt: skip


def variants(text: str) -> Iterator[tuple[str, str]]:
    """Yield a program with a call of a helper in it, whose body is seen, and the same where it is not."""
    tree = ast.parse(text)
    lines = text.splitlines()
    loop = [node for node in tree.body if isinstance(node, ast.For)][-1]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    places = [node for node in loop.body if node.lineno > loop.lineno]
    for place in places:
        for given in GIVEN:
            bare = given.removeprefix("list(").removesuffix(".parameters())")
            if not set(bare.split(", ")) <= names or (bare == "loss" and place is places[0]):
                continue
            call = " " * place.col_offset + f"helper({given})"
            taken = given if "(" not in given else "model"
            for needs, bodies in DONE.items():
                for body in bodies if needs in taken.split(", ") else ():
                    seen = f"def helper({taken}): {body}"
                    if taken != given:
                        seen = "def helper(parameters): [p.grad for p in parameters]"
                    with_call = [*lines[: place.lineno - 1], call, *lines[place.lineno - 1 :]]
                    first = next(i for i, line in enumerate(with_call) if line.startswith("dist.init") or "= " in line)
                    yield (
                        "\n".join([*with_call[:first], seen, *with_call[first:]]),
                        "\n".join([*with_call[:first], "from unseen import helper", *with_call[first:]]),
                    )


def found(text: str) -> dict[tuple[str, int], Finding]:
    return {(each.code, each.span.line): each for each in check(from_text(text, "train.py")).findings}


@pytest.mark.parametrize("name", sorted(programs()))
def test_a_hidden_helper_makes_no_finding_that_the_whole_lacks(name: str) -> None:
    every = list(variants(programs()[name]))
    for seen, hidden in random.Random(name).sample(every, min(len(every), EACH)):
        whole, partial = found(seen), found(hidden)
        if any(each.certain and each.code in RAISING for each in whole.values()):
            # What comes behind an exception that the helper makes is not known of the whole.
            continue
        for at, each in partial.items():
            assert not each.certain or (at in whole and whole[at].certain), f"{at}\n{seen}"
            assert at in whole or each.rests_on, f"{at}\n{seen}"


def test_there_are_variants_to_look_at() -> None:
    assert sum(1 for text in programs().values() for _ in variants(text)) > 5_000
