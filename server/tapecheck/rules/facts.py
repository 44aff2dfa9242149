"""What fixes and recorded runs read of a finding, beyond its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tapecheck.tape import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What several readers ask of any finding. A rule that has more to say has a subclass in its `facts.py`.

    `loop` is the loop over whose iterations it happens, `stored` where the value that it is about was stored, and
    `argument` the one that is unnecessary. `parameters` are the names of those that it is about, and `optimizers` the
    places where their optimizers are made.
    """

    loop: Span | None = None
    stored: Span | None = None
    argument: Span | None = None
    parameters: tuple[str, ...] = ()
    optimizers: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What an optimizer lacks, as the fixes need to know it that hand it over.

    `kind` says whether its module knows of the parameters ("registered"), holds them where it does not know of them
    ("unregistered"), whether they are in no module ("loose"), new tensors under the name of old ones ("renamed"), or
    made anew in each iteration ("anew"). `made` is where they were made, `calls` what led there. `whole` says that the
    optimizer was given all that its module had at that time, and `siblings` are the names of what it was given.
    """

    kind: Literal["registered", "unregistered", "loose", "renamed", "anew"]
    optimizer: Span
    made: tuple[Span, ...]
    calls: tuple[Span, ...] = ()
    whole: bool = False
    siblings: tuple[str, ...] = ()
