"""What names lead to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def closed(names: Iterable[str], led_to: Mapping[str, Iterable[str]]) -> list[str]:
    """Return names with all that they lead to, each once."""
    found = dict.fromkeys(names)
    queue = [*found]
    for one in queue:
        fresh = [other for other in led_to.get(one, ()) if other not in found]
        found.update(dict.fromkeys(fresh))
        queue += fresh
    return queue
