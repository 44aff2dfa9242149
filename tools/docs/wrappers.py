"""The tables of docs/wrappers.md, made from what `tools.torchlab.wrappers` has measured."""

from __future__ import annotations

import json
from pathlib import Path

from tools.torchlab.recomputed_programs import HOOKS, REENTRANT
from tools.torchlab.sharded_programs import RESHARD
from tools.torchlab.wrapper_programs import BACKENDS, OPTIONS

Measured = dict[str, dict[str, dict[str, str]]]
"""Outcomes by section, step and option."""
OUTCOMES = Path(__file__).parents[1] / "torchlab" / "wrappers.json"
SHOWN = "2.13.0"
"""The version of torch whose tables are whole; of others what differs from it is shown."""
_SHORT = {
    "right, and raises without": "runs; raises without",
    "right": "right",
    "gradients differ": "**silent**: gradients differ",
    "other gradients": "**silent**: other gradients",
    "Expected to have finished reduction": "raises at the next forward",
    "Trying to backward through the graph a second time": "raises: graph freed",
    "torch.compile with aot_autograd": "raises: no double backward",
    "This backward function was compiled": "raises: donated buffers",
    "Your training graph has changed": "raises: the graph has changed",
    "Expected to mark a variable ready only once": "raises: ready twice",
    "Encountered gradient which is undefined": "raises: undefined gradient",
    "one of the variables needed for gradient": "raises: changed in place",
    "expect_autograd_hooks_ INTERNAL": "raises: internal assertion",
    "FSDP state has already been lazily initialized": "raises: initialized already",
    "setStorage": "raises: storage resharded",
    "When use_reentrant=True": "raises: incompatible with `.grad()`",
    "element 0 of tensors does not require grad": "raises: no graph",
    "a leaf Variable that requires grad": "raises: leaf changed in place",
    "torch.utils.checkpoint: ": "raises: recomputed otherwise",
    "Unexpected keyword arguments": "raises: keyword arguments",
    "In order to use an autograd.Function with functorch": "raises: no functorch transform",
    "torch.func.{grad, vjp, jacrev, hessian} don't yet": "raises: no functorch transform",
    "Either your tensor may have escaped": "raises: no functorch transform",
    "You tried to vmap over": "raises: no functorch transform",
    "You are calling the method": "raises: not a forward method",
}
_ANYWHERE = {
    "appear": "raises: not used in the graph",
    "got mixed torch.Tensor and DTensor": "raises: Tensor and DTensor mixed",
    "the local_tensor argument only accepts": "raises: Tensor and DTensor mixed",
    "has no attribute": "raises: attribute missing",
}
_SECTIONS = (
    ("ddp", "DistributedDataParallel, two processes", OPTIONS[:3]),
    ("fsdp", "FSDP2 (`fully_shard`), two processes", RESHARD),
    ("tensor", "tensor parallelism (`parallelize_module`), two processes", ("",)),
    ("compile", "torch.compile, by backend", BACKENDS),
    ("checkpoint", "torch.utils.checkpoint", REENTRANT),
    ("hooks", "saved-tensor hooks around the forward", HOOKS),
    ("accelerate", "Accelerate 1.15, two processes", ("",)),
    ("lightning", "Lightning Fabric 2.6, two processes", ("",)),
)
_HEADS = {
    "": "default", HOOKS[0]: "`save_on_cpu()`", HOOKS[1]: "hooks that copy",
    HOOKS[2]: "hooks that hand over the tensor",
}  # fmt: skip


def _shown(outcome: str) -> str:
    for start, short in _SHORT.items():
        if outcome.startswith(start):
            return short
    return next((short for part, short in _ANYWHERE.items() if part in outcome), f"raises: {outcome[:40]}")


def tables() -> str:
    """Return the tables as Markdown: those of one version of torch, and what differs in the others."""
    measured = json.loads(OUTCOMES.read_bytes())
    rows: list[str] = []
    for section, title, columns in _SECTIONS:
        heads = [_HEADS.get(column, f"`{column}`") for column in columns]
        rows += [f"### torch {SHOWN}: {title}", "", f"| step | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
        for step, outcomes in measured[SHOWN][section].items():
            shown = (_shown(outcomes[column]) if column in outcomes else "not measured" for column in columns)
            rows.append(f"| {step} | {' | '.join(shown)} |")
        rows.append("")
    for version in sorted(measured, key=lambda each: tuple(map(int, each.split(".")))):
        if version != SHOWN:
            rows += _differences(version, measured[version], measured[SHOWN])
    return "\n".join(rows)


def _differences(version: str, measured: Measured, shown: Measured) -> list[str]:
    """Return the rows of a version that end otherwise than those of the version shown, and what was not measured."""
    rows = [f"### torch {version}: what differs from {SHOWN}", ""]
    found = []
    for section, title, columns in _SECTIONS:
        for step, outcomes in measured.get(section, {}).items():
            for column in columns:
                before = shown[section].get(step, {})
                if column in before and column in outcomes:
                    ends, ended = _shown(outcomes[column]), _shown(before[column])
                    if ends != ended:
                        option = _HEADS.get(column, f"`{column}`")
                        found.append(f"| {title.partition(',')[0]} | {step} | {option} | {ends} | {ended} |")
    if found:
        rows += [f"| wrapper | step | option | {version} | {SHOWN} |", "|---|---|---|---|---|", *found, ""]
    steps = sum(len(shown[section].keys() - each.keys()) for section, each in measured.items())
    count = sum(len(outcomes) for section in measured.values() for outcomes in section.values())
    missing = [f"{steps} of the other steps"] * bool(steps)
    missing += [title.partition(",")[0] for section, title, _ in _SECTIONS if section not in measured]
    rows += [
        f"{count} outcomes were measured; all others are the same."
        + f" Not measured: {', '.join(missing)}." * bool(missing),
        "",
    ]
    return rows
