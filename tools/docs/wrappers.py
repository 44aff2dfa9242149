"""The tables of docs/wrappers.md, made from what `tools.torchlab.wrappers` has measured."""

from __future__ import annotations

import json
from importlib import resources

from tools.torchlab.wrapper_programs import BACKENDS, OPTIONS

_SHORT = {
    "right": "right",
    "gradients differ": "**silent**: gradients differ",
    "Expected to have finished reduction": "raises at the next forward",
    "Trying to backward through the graph a second time": "raises: graph freed",
    "torch.compile with aot_autograd": "raises: no double backward",
    "This backward function was compiled": "raises: donated buffers",
    "Your training graph has changed": "raises: the graph has changed",
    "Expected to mark a variable ready only once": "raises: ready twice",
    "Encountered gradient which is undefined": "raises: undefined gradient",
    "one of the variables needed for gradient": "raises: changed in place",
    "expect_autograd_hooks_ INTERNAL": "raises: internal assertion",
}


def _shown(outcome: str) -> str:
    return next((short for start, short in _SHORT.items() if outcome.startswith(start)), f"raises: {outcome[:40]}")


def tables() -> str:
    """Return the tables as Markdown, the newest version of torch first."""
    measured = json.loads(resources.files("tapecheck.torchfacts").joinpath("wrappers.json").read_bytes())
    rows = []
    for version in sorted(measured, key=lambda each: tuple(map(int, each.split("."))), reverse=True):
        for section, columns in (("ddp", OPTIONS), ("compile", BACKENDS)):
            head = [f"`{column}`" if column else "default" for column in columns]
            title = "DistributedDataParallel, two processes" if section == "ddp" else "torch.compile, by backend"
            rows += [
                f"### torch {version}: {title}",
                "",
                f"| step | {' | '.join(head)} |",
                "|---|" + "---|" * len(head),
            ]
            for step, outcomes in measured[version][section].items():
                shown = (_shown(outcomes[column]) if column in outcomes else "not measured" for column in columns)
                rows.append(f"| {step} | {' | '.join(shown)} |")
            rows.append("")
    return "\n".join(rows)
