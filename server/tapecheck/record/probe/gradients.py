"""Gradients that a step has used and a backward adds to: values compared at the first steps of each optimizer."""

from __future__ import annotations

import itertools
import operator
import threading
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Dict, List, Optional, Set, Tuple

from .guard import Guard
from .lines import Place, ThreadLines, Where
from .lookups import is_parameter
from .parallel import averaged
from .recording import GradientsUsed, Recording
from .values import ZEROS, TensorRef, version_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_GRADIENT = operator.attrgetter("grad")
_SIZE = operator.itemgetter(0)
_STEPS = 5
"""Steps of each optimizer, from each place, whose gradients are compared with those of the next one."""
_LOOKS = 16
"""Steps of each optimizer before which parameters that are kept the same in all processes are looked at; later, those
after 2, 4, 8, ... steps.
"""
_MOST_OTHERS = 1000
"""So many leaves that are in no optimizer are known before those are forgotten that had no gradient and are gone."""
_MOST = 16 << 20
"""Bytes of gradients that are compared, for each optimizer."""

_MOST_APART = 256
"""So many gradients of a step have a digest of their own on the tape of one of several processes, in the order that the
optimizer has them in.
"""

_MOST_LOOKED_AT = 64
"""Parameters of an optimizer that are compared between the processes."""

_EXACT = (1 << 52) - 1
"""The bits of a number that a tape keeps exactly."""


class _Used:
    """A gradient as a step used it; `place` is the backward before which it was the same, `added` the one after which
    it no longer was. `settled`: that backward has left it as it was.
    """

    __slots__ = ("added", "gradient", "parameter", "place", "settled", "value")

    def __init__(self, parameter: Tensor, gradient: Tensor, value: int) -> None:
        self.parameter = weakref.ref(parameter)
        self.gradient = weakref.ref(gradient)
        self.value: Optional[int] = value
        self.place: Optional[Where] = None
        self.added: Optional[Where] = None
        self.settled = False


class _Standing:
    """The gradient of a parameter at the last step that was looked at, and at how many steps it was that of before."""

    __slots__ = ("again", "gradient", "value", "version")

    def __init__(self) -> None:
        self.gradient: Optional[weakref.ref[Tensor]] = None
        self.value = self.version = self.again = 0


class _Idle:
    """An optimizer with frozen groups: at how many first steps, how many parameters, where it was made."""

    __slots__ = ("frozen", "place", "reference", "steps")

    def __init__(self, optimizer: Optimizer, frozen: int, place: Optional[Where]) -> None:
        self.reference = weakref.ref(optimizer)
        self.steps = 0
        self.frozen = frozen
        self.place = place


class _Other:
    """A leaf that had a gradient at steps and is in no optimizer: its value then, how often, -1 if it was changed.

    Where it is `unread`, nobody has asked whether it had a gradient.
    """

    __slots__ = ("reference", "steps", "unread", "value")

    def __init__(self, reference: TensorRef, value: object, unread: bool) -> None:
        self.reference = reference
        self.value = value
        self.unread = unread
        self.steps = 0


class UsedGradients(GradientsUsed):
    """Looks before each backward and each step at what the steps before have used."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.used: Dict[int, List[_Used]] = {}
        self.steps: Dict[int, int] = {}
        self.from_place: Dict[Tuple[int, Optional[Place]], int] = {}
        self.looked: Dict[Tuple[Optional[Place], int], Tuple[Where, int]] = {}
        """By the place of backward calls, and the line of the step after them: how many came between that and the step
        before which were compared.
        """
        # With the parameters whose used gradients were looked at when such a call began, by identity.
        self._between: Dict[Optional[Place], Tuple[Where, Dict[int, weakref.ref[Tensor]]]] = {}
        self._unknown: Set[Optional[Place]] = set()
        # By the number of an optimizer that evaluates a closure within its step; None where nothing of it is kept.
        self._evaluating: Dict[int, Optional[Dict[int, Tensor]]] = {}
        # The backward calls that had been let pass when gradients were looked at last.
        self._passed = 0
        self.told: Dict[Tuple[int, Optional[Place]], None] = {}
        self.digests: Dict[int, List[int]] = {}
        """By optimizer: a digest of all gradients that each of its first steps used, to be compared between ranks."""
        self.apart: Dict[int, List[List[Tuple[int, int, int]]]] = {}
        """By optimizer and step: of these gradients, the place of each parameter, the number of its leaf, a digest."""
        self.averaged: Dict[int, Dict[int, weakref.ref[Tensor]]] = {}
        """By optimizer: the place of each parameter that DistributedDataParallel keeps the same in all processes."""
        self.values: Dict[int, List[List[Tuple[int, int]]]] = {}
        """By optimizer and look: the places of those parameters, with a digest of what they were before a step: each of
        those that are compared, and some later ones.
        """
        self._to_average: Dict[int, weakref.ref[Tensor]] = {}
        self._searches = 3
        self.idle: Dict[int, _Idle] = {}
        """By optimizer."""
        self.stepped: Set[int] = set()
        """Leaves, by number, that an optimizer had at a step: of one that is gone, others may have the identities."""
        self.others: Dict[int, _Other] = {}
        """By number."""
        self.standing: Dict[Tuple[int, int], _Standing] = {}
        """By the numbers of optimizer and leaf: what another optimizer steps with too is not of its last step."""

    def before_backward(self, where: Where) -> None:
        """Note which used gradients are still there when a backward begins."""
        self._forget_unseen()
        for number, entries in list(self.used.items()):
            if entries:
                looked = self._between.setdefault(where[0], (where, {}))[1]
                looked.update((id(entry.parameter()), entry.parameter) for entry in entries)
                self.used[number] = [entry for entry in entries if self._same(entry, where)]

    def after_backward(self) -> None:
        """Note which used gradients the backward has added to, before the program can change them itself."""
        with Guard(self.recorder):
            for entry in itertools.chain.from_iterable(list(self.used.values())):
                if entry.place is None or entry.added is not None or entry.settled:
                    continue
                parameter, gradient = entry.parameter(), entry.gradient()
                if parameter is None or gradient is None or not self.recorder.walks.may_read(parameter):
                    continue
                found = self.recorder.reader.values.digest(gradient) if _GRADIENT(parameter) is gradient else None
                if found == entry.value:
                    entry.settled = True
                elif found is not None and found != ZEROS:
                    entry.added, entry.value = entry.place, None

    def before_step(self, number: int, optimizer: Optimizer, params: List[Tensor], evaluates: bool) -> None:
        """Tell of the gradients that this step uses with what an earlier step has used; keep those of this one.

        One that `evaluates` a closure uses what that leaves.
        """
        count = self.steps[number] = self.steps.get(number, 0) + 1
        if evaluates:
            self._evaluating[number] = None
        else:
            self._compare(number, {id(p) for p in params})
        place = self.recorder.tracer.lines().place
        here = self.from_place[number, place] = self.from_place.get((number, place), 0) + 1
        if here > _STEPS:
            if number in self.values and (count <= _LOOKS or not (count - 1) & (count - 2)):
                # A program that averages parameters now and then does so after a round number of steps.
                self.values[number].append(self._values_of(number))
            return
        leaves = self.recorder.reader.leaves
        for p in params:
            known = leaves.get(id(p))
            if known is not None and known[0]() is p:
                self.stepped.add(known[1])
        owners = self._look_at_others()
        if count <= _STEPS:
            self._count_frozen(number, optimizer)
        if evaluates:
            self._evaluating[number] = owners
        else:
            self._keep(number, params, owners)

    def after_step(self, number: int, params: List[Tensor]) -> None:
        """Tell of the gradients that a step has used which evaluated a closure, and keep them."""
        if number in self._evaluating:
            owners = self._evaluating.pop(number)
            self._compare(number, {id(p) for p in params})
            if owners is not None:
                self._keep(number, params, owners)

    def _keep(self, number: int, params: List[Tensor], owners: Dict[int, Tensor]) -> None:
        """Keep the gradients that a step uses; `owners` are other leaves, by the identity of a gradient of theirs."""
        values, leaves = self.recorder.reader.values, self.recorder.reader.leaves
        sized = [
            (values.size_of(g), index, p, g) for index, p in enumerate(params) for g in (_GRADIENT(p),) if g is not None
        ]
        sized.sort(key=_SIZE)
        if number not in self.averaged and _of_several(self.recorder.torch):
            self.averaged[number] = self._averaged_of(params)
        kept: List[_Used] = []
        folded: Optional[List[int]] = [] if self.steps[number] <= _STEPS and _of_several(self.recorder.torch) else None
        apart: List[Tuple[int, int, int]] = []
        left = _MOST
        for size, index, parameter, gradient in sized:
            left -= size
            if left < 0:
                break
            value = values.digest(gradient)
            if folded is not None:
                folded.append(-1 if value is None else value)
                known = leaves.get(id(parameter))
                if known is not None and known[0]() is parameter and value is not None:
                    apart.append((index, known[1], value & _EXACT))
            if value is not None and value != ZEROS:
                # Given to this parameter by the program, it is added to where it comes from.
                kept.append(_Used(owners.get(id(gradient), parameter), gradient, value))
                self._stands(number, parameter, gradient, value)
        self.used[number] = kept
        if kept and self.steps[number] == 1:
            # However many calls the second step waits for: were one let pass, nothing could be said of it.
            self.recorder.passing.awaited.add(number)
        if folded and -1 not in folded:
            self.digests.setdefault(number, []).append(hash(tuple(folded)) & _EXACT)
            self.apart.setdefault(number, []).append(sorted(apart)[:_MOST_APART])
            self.values.setdefault(number, []).append(self._values_of(number))

    def _averaged_of(self, params: List[Tensor]) -> Dict[int, weakref.ref[Tensor]]:
        """Return those of some parameters that are kept the same in all processes, by their places."""
        found = self._known_to_be_averaged(params)
        if not found and self._searches:
            # Each goes through all objects there are.
            self._searches -= 1
            for parameter in averaged(self.recorder.torch):
                self._to_average[id(parameter)] = weakref.ref(parameter)
            found = self._known_to_be_averaged(params)
        return found

    def _known_to_be_averaged(self, params: List[Tensor]) -> Dict[int, weakref.ref[Tensor]]:
        known = ((index, p, self._to_average.get(id(p))) for index, p in enumerate(params))
        return {index: reference for index, p, reference in known if reference is not None and reference() is p}

    def _values_of(self, number: int) -> List[Tuple[int, int]]:
        """Return digests of the parameters of an optimizer that are kept the same in all processes, by their places."""
        found = []
        for index, reference in itertools.islice(self.averaged[number].items(), _MOST_LOOKED_AT):
            parameter = reference()
            value = self.recorder.reader.values.digest(parameter) if parameter is not None else None
            if value is not None:
                found.append((index, value & _EXACT))
        return found

    def _stands(self, number: int, parameter: Tensor, gradient: Tensor, value: int) -> None:
        """Count whether a parameter has the gradient that it had at this optimizer's step before, with nothing written
        to it.
        """
        known = self.recorder.reader.leaves.get(id(parameter))
        if known is None or known[0]() is not parameter:
            return
        standing = self.standing.setdefault((number, known[1]), _Standing())
        version = version_of(gradient)
        if standing.gradient is not None and standing.gradient() is gradient:
            standing.again += (standing.value, standing.version) == (value, version)
        standing.gradient, standing.value, standing.version = weakref.ref(gradient), value, version

    def _compare(self, number: int, stepped: Set[int]) -> None:
        """Tell of the gradients that the step of an optimizer uses with what an earlier one, of any, has used."""
        self._forget_unseen()
        for other, entries in list(self.used.items()):
            left = []
            for entry in entries:
                if other != number and id(entry.parameter()) not in stepped:
                    left.append(entry)
                elif self._same(entry, None) and entry.added is not None:
                    self._tell(entry)
            self.used[other] = left
        self.used.pop(number, None)
        self.recorder.passing.awaited.discard(number)
        here = self.recorder.tracer.lines().place
        line = here.line if here is not None else 0
        for place, (where, looked) in list(self._between.items()):
            given = self.recorder.discarded.given.get(place, ())
            if any(key in stepped and key in given and reference() is not None for key, reference in looked.items()):
                first, times = self.looked.get((place, line), (where, 0))
                self.looked[place, line] = first, times + 1
                del self._between[place]

    def _forget_unseen(self) -> None:
        """Forget the gradients if backward calls were let pass since the last look: which one added is not known."""
        passed = self.recorder.passing.count
        if passed != self._passed:
            self._passed = passed
            self.used.clear()
            self._between.clear()

    def _count_frozen(self, number: int, optimizer: Optimizer) -> None:
        """Count a step at which groups of an optimizer are frozen as a whole."""
        frozen = _frozen_groups(optimizer, at_step=True)
        if frozen:
            made = self.recorder.changes.optimizer_places.get(id(optimizer))
            place = made[1] if made is not None and made[0]() is optimizer else None
            idle = self.idle.setdefault(number, _Idle(optimizer, frozen, place))
            idle.steps, idle.frozen = idle.steps + 1, min(idle.frozen, frozen)

    def _look_at_others(self) -> Dict[int, Tensor]:
        """Count the leaves that have a gradient at a step of optimizers that do not have them.

        They are returned by the identity of the gradient.
        """
        owners: Dict[int, Tensor] = {}
        listed = self._listed()
        thread = threading.get_ident()
        # Reading `.grad` makes a Python object: of what is neither a parameter nor a number beside the model, such as a
        # temperature, only where the program reads it, too.
        named = any(text.names_gradients for text in self.recorder.sources.texts())
        others = [
            (self.recorder.reader.values.size_of(leaf), number, reference)
            for key, (reference, number, owner) in list(self.recorder.reader.leaves.items())
            for leaf in (reference() if owner == thread and key not in listed and number not in self.stepped else None,)
            if leaf is not None and leaf.requires_grad
        ]  # fmt: skip
        others.sort(key=_SIZE)
        if len(self.others) > _MOST_OTHERS:
            self.others = {n: one for n, one in self.others.items() if one.steps > 0 or one.reference() is not None}
        for _, number, reference in others:
            leaf = reference()
            if leaf is None:
                continue
            unread = not named and not is_parameter(self.recorder.torch, leaf) and leaf.numel() != 1
            known = self.others.get(number)
            if known is None:
                known = self.others[number] = _Other(reference, self._value(leaf), unread)
                if not is_parameter(self.recorder.torch, leaf):
                    # Reading `.grad` makes a Python object: not of an input that is gone at the next step.
                    continue
            gradient = _GRADIENT(leaf) if not unread else None
            if gradient is not None:
                owners[id(gradient)] = leaf
            if gradient is not None or unread:
                # What goes away before the program ends cannot be looked at then.
                known.steps = known.steps + 1 if known.steps >= 0 and self._value(leaf) == known.value else -1
        return owners

    def _listed(self) -> Set[int]:
        """Return the identities of what the optimizers have that are alive."""
        watched = [one for one in list(self.recorder.changes.optimizers.values()) if one.reference() is not None]
        return {key for one in watched for key in one.ids}

    def _value(self, leaf: Tensor) -> object:
        """Return a digest of a leaf; what cannot be read is never the same."""
        found = self.recorder.reader.values.digest(leaf)
        return object() if found is None else found

    def write(self, lines: ThreadLines) -> None:
        """Write at how many steps of each optimizer gradients were compared, and what none of them has."""
        if self.recorder.attached:
            self.recorder.reader.values.allow()
        self._write_others(lines)
        self._write_idle(lines)
        again: Dict[int, int] = {}
        for (_, leaf), standing in self.standing.items():
            again[leaf] = max(again.get(leaf, 0), standing.again)
        for leaf, steps in again.items():
            # Told only where some step had the gradient of the one before: else it goes without saying.
            if steps:
                name, at = "gradient-again:%d" % leaf, self.recorder.here(lines)
                self.recorder.writer.event("Measure", at=at, name=name, value=steps, unit="steps")
        for number, digests in self.digests.items():
            here = self.recorder.here(lines)
            for step, digest in enumerate(digests):
                name = "step-digest:%d:%d" % (number, step)
                self.recorder.writer.event("Measure", at=here, name=name, value=digest, unit="digest")
                for index, leaf, own in self.apart[number][step]:
                    name = "gradient-digest:%d:%d:%d:%d" % (number, step, index, leaf)
                    self.recorder.writer.event("Measure", at=here, name=name, value=own, unit="digest")
        for number, looks in self.values.items():
            for look, values in enumerate([*looks, self._values_of(number)]):
                for index, value in values:
                    name, at = "parameter-digest:%d:%d:%d" % (number, look, index), self.recorder.here(lines)
                    self.recorder.writer.event("Measure", at=at, name=name, value=value, unit="digest")
        for (place, line), (where, times) in self.looked.items():
            if place not in self._unknown:
                at, name = self.recorder.site(*where), "backward-compared:%d" % line
                self.recorder.writer.event("Measure", at=at, name=name, value=times, unit="calls")
        for number, count in self.steps.items():
            name = "gradients-compared:%d" % number
            self.recorder.writer.event(
                "Measure", at=self.recorder.here(lines), name=name, value=min(count - 1, _STEPS), unit="steps"
            )

    def _write_others(self, lines: ThreadLines) -> None:
        listed = self._listed()
        for leaf, other in self.others.items():
            tensor = other.reference()
            if leaf in self.stepped:
                continue
            if other.steps > 0 and (
                tensor is None or (id(tensor) not in listed and self._value(tensor) == other.value)
            ):
                name = ("left-alone:%d" if other.unread else "left-out:%d") % leaf
                at = self.recorder.here(lines)
                self.recorder.writer.event("Measure", at=at, name=name, value=other.steps, unit="steps")

    def _write_idle(self, lines: ThreadLines) -> None:
        for number, idle in self.idle.items():
            optimizer = idle.reference()
            frozen = _frozen_groups(optimizer) if optimizer is not None else idle.frozen
            if frozen and idle.steps == min(self.steps.get(number, 0), _STEPS):
                name = "frozen-groups:%d" % idle.steps
                at = self.recorder.site(*idle.place) if idle.place is not None else self.recorder.here(lines)
                self.recorder.writer.event("Measure", at=at, name=name, value=frozen, unit="parameters")

    def _same(self, entry: _Used, where: Optional[Where]) -> bool:
        """Return whether a gradient is still the one that was used, with nothing or something added to it."""
        parameter, gradient = entry.parameter(), entry.gradient()
        if parameter is None:
            return False
        may_read = self.recorder.walks.may_read(parameter)
        now = _GRADIENT(parameter) if may_read else None
        if now is None or now is not gradient:
            if entry.place is not None and (now is not None or not may_read):
                # The program's own, or the sum that a backward with its graph makes.
                self._unknown.add(entry.place[0])
            return False
        found = self.recorder.reader.values.digest(gradient)
        if found is None or found == ZEROS:
            # Not to be read now, or cleared in place, whatever was added before.
            return False
        if entry.added is not None:
            return True
        if found == entry.value:
            if where is None and entry.place is not None:
                # It is used again, whatever the backward gave: zeros, maybe.
                self._unknown.add(entry.place[0])
            entry.place, entry.settled = where, False
            return where is not None
        # Zeros and what the program scaled itself differ before any backward has begun, or after it.
        entry.added, entry.value = None if entry.settled else entry.place, None
        return entry.added is not None

    def _tell(self, entry: _Used) -> None:
        assert entry.added is not None
        recorder = self.recorder
        known = recorder.reader.leaves.get(id(entry.parameter()))
        if known is None or (known[1], entry.added[0]) in self.told:
            return
        self.told[known[1], entry.added[0]] = None
        name = "stale-gradient:%d" % known[1]
        recorder.writer.event("Measure", at=recorder.site(*entry.added), name=name, value=1, unit="steps")


def _of_several(torch: ModuleType) -> bool:
    """Return whether this process is one of several that are joined by torch.distributed."""
    joined = torch.distributed
    return bool(joined.is_available() and joined.is_initialized() and joined.get_world_size() > 1)


def _frozen_groups(optimizer: Optimizer, *, at_step: bool = False) -> int:
    """Return how many parameters an optimizer has in groups that are frozen as a whole; `at_step` says that a step is
    taken, which changes what the program has given a gradient by hand.
    """
    groups = [group["params"] for group in optimizer.param_groups]
    trained = [any(p.requires_grad or (at_step and p.grad is not None) for p in group) for group in groups]
    return sum(len(group) for group, trains in zip(groups, trained) if not trains)
