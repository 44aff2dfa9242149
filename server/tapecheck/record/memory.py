"""Report what held the memory when it ran out."""

from __future__ import annotations

from collections.abc import Iterator

from tapecheck.report.sizes import bytes_text
from tapecheck.tape import Measure, Tape


def memory_ran_out(tape: Tape) -> Iterator[str]:
    """Yield a line for each time that the memory ran out, and one for each source line whose graphs held much of it."""
    total = 0
    for event in tape.events:
        if not isinstance(event, Measure) or not event.name.startswith("memory-"):
            continue
        size = bytes_text(int(event.value))
        where = f"{event.at.file}:{event.at.line}"
        if event.name == "memory-ran-out":
            total = int(event.value)
            yield f"the memory ran out at {where}; live tensors held {size}:"
        elif not total or not event.value:
            continue
        elif event.name == "memory-of-graphs":
            yield f"  {size} are saved tensors of autograd graphs"
        elif event.name == "memory-of-line":
            yield f"    {size} of graphs built at {where}"
        elif event.name == "memory-of-parameters":
            yield f"  {size} are parameters"
        elif event.name == "memory-of-tensors":
            yield f"  {size} are other tensors: data, gradients, optimizer states, results"
