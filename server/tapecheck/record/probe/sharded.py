"""Which forwards under FSDP2 use parameters that were gathered before a step: the shards have changed since then."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Set, Tuple

from .guard import Guard
from .lines import Place
from .recording import Recording

if TYPE_CHECKING:
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param_group"


class Sharded:
    """Looks at each group of sharded parameters as it is gathered, and as a forward uses what was gathered."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self._gathered: weakref.WeakKeyDictionary[FSDPParamGroup, Tuple[List[int], int]] = weakref.WeakKeyDictionary()
        """The versions of the shards of a group when it was gathered, and how many steps there had been."""
        self._steps = 0
        self._unsure = False
        self._told: Set[Optional[Place]] = set()
        self._undo: Optional[Callable[[], None]] = None

    def before_step(self) -> None:
        """Watch FSDP2 once the program has it: what is gathered at its first step was so before."""
        self._steps += 1
        module = sys.modules.get(_MODULE) if self._undo is None else None
        # torch loads it by itself for many a program; without processes to shard among there are no groups to look for.
        if module is None or not self.recorder.torch.distributed.is_initialized():
            return
        kind = module.FSDPParamGroup
        for each in gc.get_objects():
            if type(each) is kind and each.is_unsharded:
                self._gathered[each] = _versions(each), self._steps - 1
        self._undo = self._watch(kind)
        with self.recorder.group() as lines:
            event = self.recorder.writer.event
            event("Measure", at=self.recorder.here(lines), name="shards-watched", value=1, unit="steps")

    def undo(self) -> None:
        """Leave FSDP2 as it was."""
        if self._undo is not None:
            self._undo()

    def _watch(self, kind: Any) -> Callable[[], None]:
        pre_forward, wait = kind.pre_forward, kind.wait_for_unshard

        def waited(group: FSDPParamGroup, *args: Any, **words: Any) -> Any:
            had = group.is_unsharded
            result = wait(group, *args, **words)
            if not had and group.is_unsharded:
                with Guard(self.recorder):
                    self._gathered[group] = _versions(group), self._steps
            return result

        def entered(group: FSDPParamGroup, *args: Any, **words: Any) -> Any:
            if not self.recorder.failures and group.is_unsharded:
                with Guard(self.recorder):
                    versions, steps = self._gathered.get(group, (None, self._steps))
                    if versions is not None and versions != _versions(group):
                        self.recorder.rests.wake(sys._getframe(1))
                        self._write(len(group.fsdp_params))
                    elif steps != self._steps and not self._unsure:
                        self.recorder.rests.wake(sys._getframe(1))
                        self._note_unsure()
            return pre_forward(group, *args, **words)

        def undo() -> None:
            kind.pre_forward, kind.wait_for_unshard = pre_forward, wait

        kind.pre_forward, kind.wait_for_unshard = entered, waited
        return undo

    def _note_unsure(self) -> None:
        """Write once that a step may have changed what was gathered: `foreach` and `fused` ones leave the versions."""
        self._unsure = True
        with self.recorder.group() as lines:
            event = self.recorder.writer.event
            event("Measure", at=self.recorder.here(lines), name="shards-unsure", value=1, unit="steps")

    def _write(self, count: int) -> None:
        """Write, once for each place, that a forward uses so many parameters from before a step."""
        with self.recorder.group() as lines:
            self.recorder.declare_loops(lines)
            if lines.place not in self._told:
                self._told.add(lines.place)
                at = self.recorder.here(lines)
                self.recorder.writer.event("Measure", at=at, name="stale-shards", value=count, unit="parameters")


def _versions(group: FSDPParamGroup) -> List[int]:
    """Return how often the shards of a group were changed in place."""
    # A step changes the distributed tensor; what a program does to the local one counts as well.
    shards = [each.sharded_param for each in group.fsdp_params]
    return [version for shard in shards for version in (shard._version, shard._local_tensor._version)]
