"""Changes in place: statements of the user that change a tensor, and the steps of optimizers.

They go onto the tape once they matter: when a node saved what they changed.
"""

from __future__ import annotations

import itertools
import operator
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .graph import NewLeaf
from .lines import Iterations, Place, State, ThreadLines, Where, iterations
from .lookups import ids_of, module_of
from .recording import InPlaceChanges, Recording
from .values import address_of, is_learning_leaf, version_of

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

_MAX_PENDING = 256
_VERSION = operator.attrgetter("_version")
_GRADIENT = operator.attrgetter("grad")
_PARAMS = operator.itemgetter("params")
# Steps are let pass after so many that moved the same, and never more than this many in a row.
_EVALUATED = 100
"""Steps within which it is looked whether a closure made a gradient."""
_REGULAR, _MOST_UNSEEN = 4, 31


class Change(NamedTuple):
    """An in-place change seen, not yet known to matter."""

    stamp: int
    place: Optional[Place]
    iteration: Iterations
    how: str
    name: str
    optimizer: Optional[int]
    leaf: Optional[int]


class Watched:
    """An optimizer: the parameters it had at its last step, what is known of them, and its steps not yet looked at.

    `complete` says that each of its parameters had a gradient once, `own` that its class is torch's, `steps` holds the
    sequence number and the place of each, the iterations that ran, the parameters by identity and which of them it
    changed. Steps that were like each other `regular` times are let pass: `wait` more of them, `unseen` so far, each of
    which should have moved the versions on from `versions` by `moves`; whether that is so the next look tells.
    """

    __slots__ = (
        "changed", "complete", "ids", "moves", "number", "own", "passing", "plain", "reference", "regular", "steps",
        "unseen", "versions", "wait",
    )  # fmt: skip

    def __init__(self, reference: weakref.ref[Optimizer], number: int) -> None:
        self.reference = reference
        self.number = number
        self.ids: List[int] = []
        self.plain = self.complete = self.own = self.passing = False
        self.regular = self.wait = self.unseen = 0
        self.versions: List[int] = []
        self.moves: List[int] = []
        self.changed: Tuple[bool, ...] = ()
        self.steps: List[Tuple[int, Optional[Place], State, int, List[int], Tuple[bool, ...]]] = []


class Changes(InPlaceChanges):
    """What changed in place in one recorded run, and which optimizer did it."""

    def __init__(self, recorder: Recording) -> None:
        self.recorder = recorder
        self.optimizers: Dict[int, Watched] = {}
        self.numbered = 0
        self.optimizer_places: Dict[int, Tuple[weakref.ref[Optimizer], Where]] = {}
        self.gradients: Dict[int, List[int]] = {}
        # The newest changes of every storage, in order, and the numbers of those of them that are on the tape.
        self.histories: Dict[int, List[Change]] = {}
        self.written_changes: Dict[int, Dict[Change, int]] = {}
        self.written_count: Dict[int, int] = {}
        self.statements: List[Tuple[int, Change]] = []
        # Storages of parameters and the newest node on the tape that saved them: the first change after it matters.
        self.awaited: Dict[int, int] = {}
        self.learning: Dict[int, Tensor] = {}

    def version_then(self, storage: int, sequence: int) -> int:
        """Return how many in-place changes of a storage the tape has from before the first one after a node was
        built.
        """
        history = self.histories.get(storage)
        if not history or history[-1].stamp <= sequence:
            self.awaited[storage] = sequence
            return self.written_count.get(storage, 0)
        return self.written(storage, _first_after(history, sequence))

    def written(self, storage: int, change: Change) -> int:
        """Return the number of a change among those of its storage on the tape; it is written unless it has one."""
        recorder = self.recorder
        known = self.written_changes.setdefault(storage, {})
        number = known.get(change)
        if number is None:
            number = self.written_count.get(storage, 0)
            self.written_count[storage] = number + 1
            if len(known) > 2 * _MAX_PENDING:
                known.clear()
            known[change] = number
            leaf = change.leaf
            if leaf is None and change.optimizer is not None:
                leaf = recorder.reader.leaf_of_storage.get(storage)
            recorder.writer.event(
                "InPlace", at=recorder.site(change.place, change.iteration), storage=storage, how=change.how,
                name=change.name or recorder.described.names.get(leaf or 0, ""), leaf=leaf, grad_mode="no" if
                change.optimizer is not None else "yes", optimizer=change.optimizer,
            )  # fmt: skip
        return number

    # Statements

    def change(self, tensor: Tensor, place: Optional[Place], iteration: Iterations, how: str, name: str,
               moved: int, stamp: Optional[int] = None) -> None:  # fmt: skip
        """Remember a change; it goes onto the tape once some node is known to have saved that storage.

        `moved` is by how much it moved the tensor's version on, `stamp` the sequence number then, where that is past.
        """
        recorder = self.recorder
        stamp, key = recorder.tracer.sequence() if stamp is None else stamp, id(tensor)
        for watched in self.optimizers.values():
            if watched.passing:
                continue
            if (watched.wait or watched.unseen) and key in watched.ids:
                # Else it would stand in for what a step that was let pass may have left undone.
                watched.versions[watched.ids.index(key)] += moved
            if watched.steps and watched.steps[-1][0] == stamp:
                # Their order would be lost: no node was built in between.
                self._look_at_steps(watched)
        address = address_of(tensor)
        if not address:
            return
        storage = recorder.reader.storage(address)
        leaf = None
        if is_learning_leaf(tensor):
            found: List[NewLeaf] = []
            leaf = recorder.reader.leaf(tensor, found)
            if found:
                recorder.described.leaves(found, None)
        change = Change(stamp, place, iteration, how, name, None, leaf)
        self._remember(storage, [change])
        self.statements.append((storage, change))
        if len(self.statements) > 8 * _MAX_PENDING:
            saved = recorder.reader.saved_storages
            self.statements = [entry for entry in self.statements if entry[0] in saved][-4 * _MAX_PENDING :]
        if len(self.histories) > 20_000:
            saved = recorder.reader.saved_storages
            self.histories = {key: value for key, value in self.histories.items() if key in saved}

    def _remember(self, storage: int, changes: List[Change]) -> None:
        history = self.histories.setdefault(storage, [])
        ordered = not history or history[-1].stamp <= changes[0].stamp
        history += changes
        if not ordered:
            history.sort(key=operator.attrgetter("stamp"))
        if len(history) > 2 * _MAX_PENDING:
            del history[:-_MAX_PENDING]

    def _look_at_steps(self, watched: Watched) -> None:
        """Tell the steps of an optimizer apart by what they changed."""
        optimizer = watched.reference()
        if watched.unseen:
            now = [] if optimizer is None else _params_of(optimizer)
            self._verify(watched, now if list(map(id, now)) == watched.ids else [])
        steps, watched.steps = watched.steps, []
        if optimizer is None:
            return
        params = {id(p): p for group in optimizer.param_groups for p in group["params"]}
        storages: Dict[int, int] = {}
        for key, tensor in params.items():
            address = address_of(tensor)
            if address:
                storages[key] = self.recorder.reader.storage(address)
        # Mostly all steps changed the same.
        start = 0
        for end in range(1, len(steps) + 1):
            *_, ids, changed = steps[start]
            if end == len(steps) or steps[end][4] is not ids or steps[end][5] is not changed:
                these = [
                    Change(stamp, place, iterations(state, index), "optimizer step", "", watched.number, None)
                    for stamp, place, state, index, _, _ in steps[start:end]
                ]
                for key, moved in zip(ids, changed):
                    if moved and key in storages:
                        self._remember(storages[key], these)
                start = end

    def write(self) -> None:
        """Write the changes in place that matter: statements of the user that changed what some node saved, and the
        first change of a parameter after a node on the tape saved it.
        """
        for watched in self.optimizers.values():
            if watched.steps:
                self._look_at_steps(watched)
        if self.statements:
            saved = self.recorder.reader.saved_storages
            statements, self.statements = self.statements, []
            for storage, change in statements:
                if storage in saved:
                    self.written(storage, change)
                else:
                    self.statements.append((storage, change))
        for storage, sequence in list(self.awaited.items()):
            history = self.histories.get(storage)
            if history and history[-1].stamp > sequence:
                del self.awaited[storage]
                self.written(storage, _first_after(history, sequence))

    # Optimizers

    def optimizer_made(self, optimizer: Optimizer) -> None:
        """Register an optimizer that was just made."""
        lines = self.recorder.tracer.lines()
        self.optimizer_places[id(optimizer)] = (weakref.ref(optimizer), (lines.place, lines.iteration()))

    def parameters(self) -> Iterator[Tuple[Tensor, Where]]:
        """Yield the parameters of all optimizers, with where these were made."""
        for reference, made in list(self.optimizer_places.values()):
            # One that is just being made, or could not be, has no groups.
            for group in getattr(reference(), "param_groups", ()):
                for p in group["params"]:
                    yield p, made

    def before_step(self, optimizer: Optimizer, evaluates: bool) -> bool:
        """Return, of an optimizer that is about to step, whether all that runs until it has is torch's own code.

        One that `evaluates` is given a closure, or what may be one.
        """
        recorder = self.recorder
        if recorder.disabled or recorder.ended:
            return False
        watched = self.optimizers.get(id(optimizer))
        passed = getattr(recorder.walks.last, "mark", None) is not None
        if watched is not None and watched.wait > 0 and passed and watched.reference() is optimizer:
            watched.wait -= 1
            watched.passing = True
            return watched.own
        if watched is None or watched.reference() is not optimizer or not passed:
            if recorder.process.is_forked():
                return False
            with recorder.group() as lines:
                recorder.raises.flush(caught=True)
                recorder.tracer.catch_up(lines)
                recorder.declare_loops(lines)
                watched = self._optimizer(optimizer, lines)
                recorder.writer.event("Step", at=recorder.here(lines), optimizer=watched.number)
        params = _params_of(optimizer)
        ids = list(map(id, params))
        if watched.unseen:
            self._verify(watched, params if ids == watched.ids else [])
        watched.passing, watched.wait = False, 0
        if ids != watched.ids:
            watched.ids = ids
            watched.complete = False
            watched.regular = 0
            plain = ids_of(recorder.torch.Tensor, recorder.torch.nn.Parameter)
            watched.plain = plain.issuperset(map(id, map(type, params)))
            watched.own = watched.plain and module_of(type(optimizer)).startswith("torch.optim.")
        recorder.reader.values.allow()
        recorder.discarded.before_step(params, evaluates)
        recorder.unscaled.before_step(optimizer, watched.number, watched.own)
        recorder.gradients.before_step(watched.number, optimizer, params, evaluates)
        if watched.plain:
            self._steps(watched, params)
        else:
            with recorder.torch._C.DisableTorchFunction():
                self._steps(watched, params)
        return watched.own

    def _verify(self, watched: Watched, params: List[Tensor]) -> None:
        """Forget the steps that were let pass unless the versions moved on as those steps should have moved them."""
        unseen, watched.unseen = watched.unseen, 0
        versions = _versions(params)
        least = [version + unseen * move for version, move in zip(watched.versions, watched.moves)]
        if len(versions) != len(least) or any(map(operator.lt, versions, least)):
            watched.regular = 0
            del watched.steps[-unseen:]
        if versions:
            watched.versions = versions
        self.recorder.walks.had_gradient.update(watched.ids)

    def _steps(self, watched: Watched, params: List[Tensor]) -> None:
        """Look at the parameters before a step: their versions, and whether they have gradients."""
        recorder = self.recorder
        watched.versions = _versions(params)
        missing = [grad is None for grad in map(_GRADIENT, params)]
        if watched.complete and not any(missing):
            recorder.walks.had_gradient.update(watched.ids)
        else:
            watched.regular = 0
            complete = True
            leaves, gradients = recorder.reader.leaves, self.gradients
            for p, lacks in zip(params, missing):
                if p.requires_grad:
                    entry = leaves.get(id(p))
                    if entry is None or entry[0]() is not p:
                        complete = False
                        continue
                    counts = gradients.setdefault(entry[1], [0, 0])
                    counts[0] += 1
                    if not lacks:
                        counts[1] += 1
                        recorder.walks.had_gradient.add(id(p))
                    complete = complete and counts[1] > 0
            watched.complete = complete
        if recorder.seeded.seed is not None:
            # Only a run whose results are compared keeps what it looks at.
            self.learning.update(zip(watched.ids, params))

    def after_step(self, optimizer: Optimizer) -> None:
        """Remember which of its parameters an optimizer changed in a step."""
        recorder = self.recorder
        recorder.discarded.after_step()
        watched = self.optimizers.get(id(optimizer))
        if watched is None or recorder.disabled or recorder.ended:
            return
        if watched.passing:
            watched.passing = False
            watched.unseen += 1
            self._stepped(watched, watched.changed)
            return
        # Not those from before the step: a step that raises has no end, and they would be kept alive.
        params = _params_of(optimizer)
        recorder.gradients.after_step(watched.number, params)
        if len(params) != len(watched.versions):
            return
        if watched.plain:
            versions = _versions(params)
        else:
            with recorder.torch._C.DisableTorchFunction():
                versions = _versions(params)
        if not watched.complete:
            self._evaluated(params)
        moves = list(map(operator.sub, versions, watched.versions))
        watched.regular = watched.regular + 1 if moves == watched.moves else 0
        watched.moves = moves
        if versions != watched.versions:
            changed = tuple(map(bool, moves))
            if changed == watched.changed:
                changed = watched.changed
            watched.changed = changed
            self._stepped(watched, changed)
            if watched.regular >= _REGULAR and watched.plain and recorder.seeded.seed is None:
                watched.wait = min(1 << (watched.regular - _REGULAR), _MOST_UNSEEN)
        watched.versions = versions
        if getattr(recorder.walks.last, "mark", None) is None:
            with recorder.group():
                self.write()

    def _evaluated(self, params: List[Tensor]) -> None:
        """Count the gradients that a closure made within the step: LBFGS begins with those that were cleared."""
        leaves = self.recorder.reader.leaves
        for p in params:
            entry = leaves.get(id(p)) if p.requires_grad else None
            counts = self.gradients.get(entry[1]) if entry is not None and entry[0]() is p else None
            if counts is not None and not counts[1] and counts[0] <= _EVALUATED and _GRADIENT(p) is not None:
                counts[1] += 1
                self.recorder.walks.had_gradient.add(id(p))

    def count_gradients(self) -> None:
        """Count the parameters of optimizers whose steps were let pass among those that had gradients."""
        for watched in self.optimizers.values():
            if watched.unseen:
                self.recorder.walks.had_gradient.update(watched.ids)

    def _stepped(self, watched: Watched, changed: Tuple[bool, ...]) -> None:
        tracer = self.recorder.tracer
        lines = tracer.threads.get(threading.get_ident()) or tracer.lines()
        steps = watched.steps
        steps.append(
            (tracer.sequence(), lines.place, lines.loop_states[-1], lines.loop_indexes[-1], watched.ids, changed)
        )
        if len(steps) > 2 * _MAX_PENDING:
            del steps[:_MAX_PENDING]

    def _optimizer(self, optimizer: Optimizer, lines: ThreadLines) -> Watched:
        recorder = self.recorder
        key = id(optimizer)
        watched = self.optimizers.get(key)
        if watched is not None and watched.reference() is optimizer:
            return watched
        self.numbered += 1
        number = self.numbered
        watched = self.optimizers[key] = Watched(weakref.ref(optimizer), number)
        found: List[NewLeaf] = []
        given = _params_of(optimizer)
        places = [place for place, p in enumerate(given) if p.requires_grad and p.is_leaf]
        params = [recorder.reader.leaf(given[place], found) for place in places]
        if found:
            recorder.described.leaves(found, sys._getframe(0))
        made = self.optimizer_places.get(key)
        place, iteration = made[1] if made is not None and made[0]() is optimizer else (lines.place, lines.iteration())
        recorder.writer.event(
            "Optimizer", id=number, at=recorder.site(place, iteration), name=type(optimizer).__name__, params=params,
            **({"places": places} if len(places) < len(given) else {}),
        )  # fmt: skip
        return watched


def _params_of(optimizer: Optimizer) -> List[Tensor]:
    return list(itertools.chain.from_iterable(map(_PARAMS, optimizer.param_groups)))


def _first_after(history: List[Change], sequence: int) -> Change:
    """Return the first change after a sequence number, of changes in order of which the last one is."""
    index = len(history) - 1
    while index and history[index - 1].stamp > sequence:
        index -= 1
    return history[index]


def _versions(tensors: List[Tensor]) -> List[int]:
    try:
        return list(map(_VERSION, tensors))
    except RuntimeError:
        return [version_of(tensor) for tensor in tensors]
